/* names.c -- a program whose functions have the same names as some inside the library. */
#include <plimsoll.h>

#include <stdlib.h>

int  fail(void) { abort(); }
void pool_new(void) { abort(); }
void layout_solve(void) { abort(); }
void clock_now(void) { abort(); }

int main(void)
{
    plimsoll_buffer buffer = { 0 };
    plimsoll_arena  arena;
    plimsoll_error  error;
    if (plimsoll_place(&buffer, 1, NULL, &arena, &error) != PLIMSOLL_FAILED) /* no bytes */
        return 1;
    buffer.upper = buffer.size = 1;
    return plimsoll_place(&buffer, 1, NULL, &arena, &error) || arena.bytes != 1;
}
