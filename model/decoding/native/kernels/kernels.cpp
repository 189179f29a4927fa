// The kernels of one instruction set. This file is compiled once for each set (compiler.py), with the flags of the set and
//   VERSO_SET         the name of its table,
//   VERSO_SET_NAME    its name in settings and messages,
//   VERSO_SET_HEADER  its file in sets/.
//
// Nothing here may be an inline function of the standard library, nor have a name outside this file but the table: the linker
// would keep one set's copy for all (a test holds this).

#include "attention.h"
#include "logits.h"
#include "rows.h"
#include "tiles.h"
#include "vectors.h"

extern const Kernels VERSO_SET;
const Kernels VERSO_SET = {
    VERSO_SET_NAME,
    kTileOutputs,
    kGroup,
    sizeof(RoundedInput),
    sizeof(Level),
    kShift,
    kInt8Cost,
    round_to_levels,
    round_to_bfloat16,
    multiply_block,
    multiply_and_read,
    read_logits,
    pack_block,
    layer_norm,
    embed,
    recur,
    attend_source,
    {store_block<float>, attend_pages<float>, attend_memory<float>},
    {store_block<Half>, attend_pages<Half>, attend_memory<Half>},
};
