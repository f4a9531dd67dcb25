/* A class hierarchy as in ray tracers, in two files. */
#include "ray.cuh"
#include <fstream>

struct Sphere {
    vec3 centre;
    float radius;
    HD Sphere(vec3 c, float r) : centre{c}, radius{r} {}
    HD bool hit(const ray &r) const
    {
        vec3 oc = r.o - centre;
        float a = dot(r.d, r.d), b = dot(oc, r.d), c = dot(oc, oc) - radius * radius;
        return b * b > a * c;
    }
};

__global__ void render(int *image, const int width, const int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const ray r = {{0, 0, 0}, {(x + 0.5f) / width - 0.5f, (y + 0.5f) / height - 0.5f, -1.0f}};
    image[y * width + x] = Sphere(vec3{0, 0, -3}, 1.0f).hit(r);
}

std::ostream &operator<<(std::ostream &out, const vec3 &v) { return out << v.x << ' ' << v.y << ' ' << v.z; }

int main()
{
    std::ofstream out("image.ppm");
    render<<<dim3(4, 4), dim3(8, 8)>>>(nullptr, 32, 32);
    out << "P3\n" << vec3{1, 2, 3} << std::endl;
}
