/* team_of_one.h -- parallel loops of one thread without libgomp (team_of_one.c). The linker's
 * --wrap gives these names to GOMP_parallel; nothing else calls them. */
#ifndef DEVICE_TEAM_OF_ONE_H
#define DEVICE_TEAM_OF_ONE_H

void __real_GOMP_parallel(void (*run)(void *), void *data, unsigned threads, unsigned flags);
void __wrap_GOMP_parallel(void (*run)(void *), void *data, unsigned threads, unsigned flags);

#endif
