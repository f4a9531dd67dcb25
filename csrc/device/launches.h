/* The number of launches of this process, on all devices. Launches that are only recorded do not count. */
#ifndef SMEMKIT_DEVICE_LAUNCHES_H
#define SMEMKIT_DEVICE_LAUNCHES_H

unsigned long long launch_count(void);
void launch_counted(void); /* called by a device for each launch */

#endif
