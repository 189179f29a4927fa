// AVX-512 with VNNI.

#pragma once

#include "avx512_byte_products.h"
#include "widened_pairs.h"
