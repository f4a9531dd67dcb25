#pragma once
#include <ostream>
#define HD __host__ __device__

struct vec3 {
    float x, y, z;
};
HD inline vec3 operator-(const vec3 &a, const vec3 &b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
HD inline float dot(const vec3 &a, const vec3 &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
struct ray {
    vec3 o, d;
};
std::ostream &operator<<(std::ostream &out, const vec3 &v);
