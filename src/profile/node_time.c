/* node_time.c -- the key of a node, and its predicted time. */
#include "profile/node_time.h"

#include "base/hash.h"
#include "profile/rank_device.h"

#include <string.h>

/* A generic processor, for machines without a profile: rates of one thread. */
static const double plain_flops_per_ns = 50, plain_bytes_per_ns = 10, plain_launch_ns = 1000;

static uint64_t key_values(uint64_t key, const Node *node, const int32_t *ids, int32_t n)
{
    key = hash_int(key, n);
    for (int32_t i = 0; i < n; i++) {
        const Value *value = ids[i] >= 0 ? value_at(node->graph, ids[i]) : NULL;
        key = hash_int(key, value ? (int64_t)value->type : -1);
        for (int axis = 0; value && axis < value->shape.rank; axis++)
            key = hash_int(key, value->shape.dim[axis]);
    }
    return key;
}

uint64_t graph_identity(const Graph *graph)
{
    uint64_t key = HASH_EMPTY;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const Param *param = &graph->params[i];
        key = hash_bytes(key, param->name, strlen(param->name) + 1);
        key = hash_int(key, value_at(graph, param->value)->bytes);
    }
    return key;
}

OpTime node_call(const Device *device, const Node *node, const Choice *choice, uint64_t graph)
{
    const char *algorithm = choice->name ? choice->name : "";
    uint64_t    key = HASH_EMPTY;
    key = hash_bytes(key, node->op->name, strlen(node->op->name) + 1);
    key = key_values(key, node, node->in, node->n_in);
    key = key_values(key, node, node->out, node->n_out);
    /* Attributes enter through the work they cause. Their bytes contain padding, which differs from
     * run to run. */
    Cost cost = node->op->cost(node);
    key = hash_bytes(key, &cost.flops, sizeof cost.flops);
    key = hash_bytes(key, &cost.bytes, sizeof cost.bytes);
    key = hash_bytes(key, algorithm, strlen(algorithm) + 1);
    key = hash_int(key, (int64_t)choice->workspace_bytes);

    /* The type that decides the rate is that of the input: a weight gradient is fp32 in every
     * precision. */
    Type type = F32;
    if (node->n_in && in_given(node, 0))
        type = in_type(node, 0);
    else if (node->n_out && node->out[0] >= 0)
        type = out_type(node, 0);
    const char *name = type == F32 && device->tf32 ? "tf32" : type_name(type);
    if (device->tf32)
        key = hash_bytes(key, name, strlen(name) + 1);
    return (OpTime){ .key = key,
                     .graph = graph,
                     .op = node->op->name,
                     .rate = node->op->rate,
                     .kin = node->op->kin ? node->op->kin->name : NULL,
                     .type = name,
                     .flops = cost.flops,
                     .bytes = cost.bytes };
}

double plain_ns(const Device *device, double flops, double bytes)
{
    double by_flops = flops / plain_flops_per_ns, by_bytes = bytes / plain_bytes_per_ns;
    double ns = by_flops > by_bytes ? by_flops : by_bytes;
    return plain_launch_ns + ns / (device->threads > 0 ? device->threads : 1);
}

double node_pace(const Device *device, const Node *node)
{
    const Profile *profile = device->profile;
    Cost           cost = node->op->cost(node);
    if (!profile || profile->pace <= 0)
        return 1;
    bool moves = cost.flops / plain_flops_per_ns <= cost.bytes / plain_bytes_per_ns;
    return profile->pace_of[moves ? RATE_KINDS : node->op->rate];
}

double node_time(const Device *device, const Node *node, const Choice *choice, uint64_t graph,
                 TimeBasis *basis)
{
    OpTime call = node_call(device, node, choice, graph);
    double crowd = device_crowd(device);
    if (device->profile && device->profile->pace <= 0)
        return crowd * profile_ns(device->profile, &call, basis);
    *basis = TIME_ROOFLINE;
    return crowd * plain_ns(device, call.flops, call.bytes);
}

static double whole_transfer_ns(const Device *device, const Node *node)
{
    return wire_transfer_ns(device->wire, (Ranks){ device->ranks, device->per_node },
                            node->op->gives(node));
}

/* The node that starts the transfer which this one waits for. */
static const Node *transfer_start(const Node *node)
{
    const Graph *graph = node->graph;
    return &graph->nodes[value_at(graph, node->in[node->op->joins - 1])->producer];
}

/* Times of an unprobed processor are scaled where they are shown (profile/pace.h); those of a wire
 * are not, so they are divided by that factor here. */
static double wire_unit(const Device *device)
{
    const Profile *profile = device->profile;
    return profile && profile->pace > 0 ? profile->pace : 1;
}

NodeWire node_wire(const Device *device, const Node *node)
{
    const OpDef *op = node->op;
    const Wire  *wire = device->wire;
    NodeWire     moves = { 0 };
    if (!wire)
        return moves;
    double unit = wire_unit(device);
    if (op->sends)
        moves.transfer = wire->hidden * whole_transfer_ns(device, node) / unit;
    else if (op->gives)
        moves.waits = wire_records_ns(wire, (Ranks){ device->ranks, device->per_node },
                                      op->gives(node)) /
                      unit;
    if (op->joins)
        moves.waits += (1 - wire->hidden) * whole_transfer_ns(device, transfer_start(node)) / unit;
    return moves;
}

NodeWire gather_wire(const Device *device, const Value *whole)
{
    const Wire *wire = device->wire;
    if (!wire)
        return (NodeWire){ 0 };
    double ns = wire_transfer_ns(wire, (Ranks){ device->ranks, device->per_node },
                                 whole->gathered->shard * type_bytes(whole->type)) /
                wire_unit(device);
    return (NodeWire){ .transfer = wire->hidden * ns, .waits = (1 - wire->hidden) * ns };
}
