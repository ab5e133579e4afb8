/* ddim.c -- one step of DDIM: equations 12 and 16 of Song et al. (2021). */
#define LAYERS_NO_SOURCE /* no graph is built here */
#include "models/ddim.h"

#include <math.h>

static double ddim_sigma(double eta, double now, double next)
{
    return eta * sqrt((1 - next) / (1 - now) * (1 - now / next));
}

/* Where the image is clipped, the noise is what the clipped image implies. */
void ddim_take(Sampler *s, const DdimStep *step, float *x, const float *predicted, float *z,
               int64_t n)
{
    double root = sqrt(step->now), rest = sqrt(1 / step->now - 1);
    double sigma = ddim_sigma(s->config->eta, step->now, step->next);
    double of_image = sqrt(step->next), of_noise = sqrt(fmax(0, 1 - step->next - sigma * sigma));
    if (sigma > 0)
        s->normal(s, "z", step->index, z, n);
    for (int64_t i = 0; i < n; i++) {
        double now = (double)x[i], noise = (double)predicted[i], image = now / root - rest * noise;
        if (step->clip) {
            image = fmin(fmax(image, -1), 1);
            noise = (now / root - image) / rest;
        }
        x[i] = (float)(of_image * image + of_noise * noise +
                       (sigma > 0 ? sigma * (double)z[i] : 0));
    }
}
