/* Tests of base/stencil: against the plain sum in double, at widths around the strip that is kept
 * in registers. */
#include "test.h"

#include "base/random.h"
#include "base/stencil.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { ROWS = 7, TAPS = 9, STEP = 3, MAX_N = 300 };

static float in[ROWS][MAX_N + (TAPS - 1) * STEP], taps[ROWS * TAPS], to[MAX_N + 1];

static void any_width(void)
{
    static const int n_of[] = { 1, 3, 63, 64, 65, 127, 128, 200, MAX_N };
    const float     *rows[ROWS];
    RandomKey        key = { .seed = 3, .stream = 1 };
    uint64_t         next = 0;
    for (int i = 0; i < ROWS; i++) {
        rows[i] = in[i];
        for (size_t x = 0; x < COUNT(in[i]); x++)
            in[i][x] = random_uniform_at(key, next++) - 0.5f;
    }
    for (size_t i = 0; i < COUNT(taps); i++)
        taps[i] = random_uniform_at(key, next++) - 0.5f;
    for (size_t k = 0; k < COUNT(n_of); k++)
        for (int width = 1; width <= TAPS; width += 4)
            for (int n_rows = 1; n_rows <= ROWS; n_rows += 3) {
                int n = n_of[k];
                to[n] = 77;
                stencil_row(rows, n_rows, taps, width, STEP, to, n);
                for (int x = 0; x < n; x++) {
                    double sum = 0;
                    for (int i = 0; i < n_rows; i++)
                        for (int j = 0; j < width; j++)
                            sum += (double)taps[i * width + j] * (double)in[i][x + j * STEP];
                    CHECK_NEAR(to[x], sum, 2e-6);
                }
                CHECK(to[n] == 77);
            }
}

int main(void)
{
    RUN(any_width);
    return test_end();
}
