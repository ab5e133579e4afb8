/* cases_matmul.c -- batched products of two activations. */
#include "ops/cases.h"

#include "ops/matmul/matmul.h"

static void numpy_rules(Case *c)
{
    Tensor a = case_in(c, "a", SHAPE(3, 5), -1, 1), b = case_in(c, "b", SHAPE(5, 4), -1, 1);
    Tensor v = case_in(c, "v", SHAPE(5), -1, 1), x = case_in(c, "x", SHAPE(2, 7, 3, 5), -1, 1);
    Tensor y = case_in(c, "y", SHAPE(7, 5, 2), -1, 1),
           z = case_in(c, "z", SHAPE(2, 1, 5, 6), -1, 1);
    case_out(c, "plain", matmul(a, b));
    case_out(c, "column", matmul(a, v));
    case_out(c, "row", matmul(v, b));
    case_out(c, "dot", matmul(v, v));
    case_out(c, "shared", matmul(x, b));
    case_out(c, "columns", matmul(x, v));
    case_out(c, "leading", matmul(x, y));
    case_out(c, "inside", matmul(x, z));
    case_out(c, "left", matmul(a, y));
}

static void batches(Case *c)
{
    case_out(c, "y",
             bmm(case_in(c, "a", SHAPE(6, 17, 9), -1, 1), case_in(c, "b", SHAPE(6, 9, 33), -1, 1)));
    case_out(c, "one",
             bmm(case_in(c, "u", SHAPE(4, 1, 9), -1, 1), case_in(c, "w", SHAPE(4, 9, 1), -1, 1)));
}

/* q k^T and p v with heads of (B,L,H,D), read and written in place. */
static void heads(Case *c)
{
    enum { B = 2, L = 6, S = 7, H = 3, D = 5 };
    Tensor q = case_in(c, "q", SHAPE(B, L, H, D), -1, 1),
           k = case_in(c, "k", SHAPE(B, S, H, D), -1, 1),
           v = case_in(c, "v", SHAPE(B, S, H, D), -1, 1);
    MatmulAttr scores = { .m = L,
                          .n = S,
                          .k = D,
                          .b_transposed = true,
                          .batch_rank = 2,
                          .batch = { B, H },
                          .a = { { L * H * D, D }, H * D, 0 },
                          .b = { { S * H * D, D }, H * D, 0 },
                          .out = { { H * L * S, L * S }, S, 0 },
                          .alpha = 0.5f,
                          .shape = SHAPE(B, H, L, S),
                          .type = tensor_type(q) };
    MatmulAttr mix = { .m = L,
                       .n = D,
                       .k = S,
                       .batch_rank = 2,
                       .batch = { B, H },
                       .a = { { H * L * S, L * S }, S, 0 },
                       .b = { { S * H * D, D }, H * D, 0 },
                       .out = { { L * H * D, D }, H * D, 0 },
                       .alpha = 1,
                       .shape = SHAPE(B, L, H * D),
                       .type = tensor_type(q) };
    Tensor     p = matmul_op(q, k, scores);
    case_out(c, "p", p);
    case_out(c, "y", matmul_op(p, v, mix));
}

/* Slices of one tensor: q and k of packed qkv, whose gradients are spread, and a shared left
 * factor in either orientation. */
static void packed(Case *c)
{
    enum { B = 3, L = 4, D = 5 };
    Tensor x = case_in(c, "x", SHAPE(B, L, 3 * D), -1, 1), w = case_in(c, "w", SHAPE(L, 6), -1, 1);
    MatmulAttr scores = { .m = L,
                          .n = L,
                          .k = D,
                          .b_transposed = true,
                          .batch_rank = 1,
                          .batch = { B },
                          .a = { { L * 3 * D }, 3 * D, 0 },
                          .b = { { L * 3 * D }, 3 * D, D },
                          .out = { { L * L }, L, 0 },
                          .alpha = -1.5f,
                          .shape = SHAPE(B, L, L),
                          .type = tensor_type(x) };
    MatmulAttr shared = { .m = 6,
                          .n = 3 * D,
                          .k = L,
                          .a_transposed = true,
                          .batch_rank = 1,
                          .batch = { B },
                          .a = { { 0 }, 6, 0 },
                          .b = { { L * 3 * D }, 3 * D, 0 },
                          .out = { { 6 * 3 * D }, 3 * D, 0 },
                          .alpha = 1,
                          .shape = SHAPE(B, 6, 3 * D),
                          .type = tensor_type(x) };
    case_out(c, "scores", matmul_op(x, x, scores));
    case_out(c, "shared", matmul_op(w, x, shared));
}

/* Both factors transposed; the batch in the middle of the output. */
static void transposed(Case *c)
{
    enum { B = 4, M = 3, N = 6, K = 8 };
    Tensor a = case_in(c, "a", SHAPE(K, B, M), -1, 1), b = case_in(c, "b", SHAPE(N, B, K), -1, 1);
    MatmulAttr at = { .m = M,
                      .n = N,
                      .k = K,
                      .a_transposed = true,
                      .b_transposed = true,
                      .batch_rank = 1,
                      .batch = { B },
                      .a = { { M }, B * M, 0 },
                      .b = { { K }, B * K, 0 },
                      .out = { { N }, B * N, 0 },
                      .alpha = 1,
                      .shape = SHAPE(M, B, N),
                      .type = tensor_type(a) };
    case_out(c, "y", matmul_op(a, b, at));
}

static void large(Case *c)
{
    Tensor a = case_in(c, "a", SHAPE(2, 3, 130, 70), -1, 1),
           b = case_in(c, "b", SHAPE(3, 70, 200), -1, 1);
    case_out(c, "y", matmul(a, b));
}

const OpCase cases_matmul[] = {
    { "numpy", numpy_rules,
      "plain = a @ b; column = a @ v; row = v @ b; dot = (v @ v).view(1); shared = x @ b; columns "
      "= x @ v; leading = x @ y; inside = x @ z; left = a @ y" },
    { "batches", batches, "y = a @ b; one = u @ w" },
    { "heads", heads,
      "p = 0.5 * torch.einsum('blhd,bshd->bhls', q, k); y = torch.einsum('bhls,bshd->blhd', p, "
      "v).reshape(2, 6, 15)" },
    { "packed", packed,
      "scores = -1.5 * x[..., :5] @ x[..., 5:10].transpose(1, 2); shared = w.T @ x" },
    { "transposed", transposed, "y = torch.einsum('kbm,nbk->mbn', a, b)" },
    { "large", large, "y = a @ b", CASE_LIVE_ONLY },
    { 0 }
};
