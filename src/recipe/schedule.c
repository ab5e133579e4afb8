/* schedule.c -- learning-rate factors and EMA decays, which the host writes before each step. */
#include "recipe/recipe.h"

#include <math.h>

int64_t schedule_end(const Recipe *recipe)
{
    if (recipe->schedule.kind != SCHEDULE_COSINE)
        return 0;
    return recipe->schedule.steps ? recipe->schedule.steps : recipe->steps;
}

double schedule_factor(const Recipe *recipe, int64_t step)
{
    const ScheduleConfig *s = &recipe->schedule;
    if (step < s->warmup)
        return (double)step / (double)s->warmup;
    switch ((ScheduleKind)s->kind) {
    case SCHEDULE_COSINE: { /* each wave starts at 1; the last ends at 0 */
        double length = (double)(schedule_end(recipe) - s->warmup),
               p = (double)(step - s->warmup) / (length > 1 ? length : 1);
        if (p >= 1)
            return 0;
        double wave = s->cycles * p;
        return 0.5 * (1 + cos(3.141592653589793 * (s->cycles >= 1 ? fmod(wave, 1) : 2 * wave)));
    }
    case SCHEDULE_RESTARTS: {
        int64_t at = step - s->warmup, period = s->period;
        while (at >= period) {
            at -= period;
            period *= s->growth;
        }
        double low = recipe->optimizer.lr > 0 ? s->floor_lr / recipe->optimizer.lr : 0;
        return low + (1 - low) * 0.5 * (1 + cos(3.141592653589793 * (double)at / (double)period));
    }
    case SCHEDULE_PLATEAU: /* its rates are part of the run's state */
    case SCHEDULE_CONSTANT: break;
    }
    return 1;
}

Plateau plateau_start(const Recipe *recipe, const double *rates, int n)
{
    Plateau p = { .on = recipe->schedule.kind == SCHEDULE_PLATEAU };
    REQUIRE(n <= (int)(sizeof p.rates / sizeof *p.rates));
    for (int i = 0; i < n; i++)
        p.rates[i] = rates[i];
    return p;
}

void plateau_look(Plateau *p, const ScheduleConfig *s, double loss)
{
    const double min_change = 1e-8; /* PyTorch's eps: smaller changes are not made */
    if (!p->seen || loss < p->best * (1 - s->threshold)) {
        p->seen |= isfinite(loss);
        p->best = loss;
        p->bad = 0;
    } else {
        p->bad++;
    }
    if (p->cooldown > 0) {
        p->cooldown--;
        p->bad = 0;
    }
    if (p->bad <= s->patience)
        return;
    for (size_t i = 0; i < sizeof p->rates / sizeof *p->rates; i++) {
        double rate = fmax(p->rates[i] * s->factor, s->floor_lr);
        if (p->rates[i] - rate > min_change)
            p->rates[i] = rate;
    }
    p->cooldown = s->cooldown;
    p->bad = 0;
}

void plateau_step(Plateau *p, const ScheduleConfig *s, double loss)
{
    if (!isfinite(loss)) /* fp16: the update was skipped too */
        return;
    p->sum += loss;
    if (++p->count < s->period)
        return;
    plateau_look(p, s, p->sum / (double)p->count);
    p->sum = 0;
    p->count = 0;
}

double ema_decay(const Recipe *recipe, int64_t step) /* step counts from 0 */
{
    const EmaConfig *e = &recipe->ema;
    switch ((EmaRule)e->rule) {
    case EMA_POWER: { /* as in STDiff: the first step copies the weights */
        double d = step <= 0 ? 0 : 1 - pow(1 + (double)step, -e->power);
        return d < e->decay ? d : e->decay;
    }
    case EMA_COPY_FIRST: return step == 0 ? 0 : e->decay;
    case EMA_CONSTANT:
    case EMA_NONE: break;
    }
    return e->decay;
}
