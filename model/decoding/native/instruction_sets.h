// The instruction sets of the library, the fastest first, and what this processor lacks of each.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

// The tables of compiler.py: units(). Compilers that do not know the instructions of a weak one leave it out.
#if defined(__x86_64__)
extern const Kernels verso_kernels_avx512_bf16 __attribute__((weak)), verso_kernels_avx_vnni __attribute__((weak));
extern const Kernels verso_kernels_avx512_vnni, verso_kernels_avx512, verso_kernels_avx2;
#elif defined(__aarch64__)
extern const Kernels verso_kernels_neon_i8mm, verso_kernels_neon_dotprod;
#endif
extern const Kernels verso_kernels_portable;

struct InstructionSet {
  const Kernels* kernels;
  const char* lacking;  // instructions that this processor or its system lacks; null if the set can run
};

#if defined(__x86_64__)
// What cpuid says of this processor. Registers that the system does not save count as lacking.
class Processor {
 public:
  Processor() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    constexpr unsigned kFma = 1u << 12, kSystemSaves = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
    constexpr unsigned kNeeded = kFma | kSystemSaves | kAvx | kF16c;
    if ((c & kNeeded) != kNeeded) return;
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kYmm = 0x6, kZmm = 0xe6;
    if ((low & kYmm) != kYmm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    constexpr unsigned kAvx2 = 1u << 5, kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
    constexpr unsigned kAvx512 = kF | kDq | kBw | kVl, kAvx512Vnni = 1u << 11, kAvxVnni = 1u << 4,
                       kAvx512Bf16 = 1u << 5;
    avx2 = b & kAvx2;
    avx512 = avx2 && (b & kAvx512) == kAvx512 && (low & kZmm) == kZmm;
    avx512_vnni = avx512 && (c & kAvx512Vnni);
    bool has_more = a >= 1;  // a second page of features
    if (has_more && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
      avx_vnni = avx2 && (a & kAvxVnni);
      avx512_bf16 = avx512_vnni && (a & kAvx512Bf16);
    }
#if defined(VERSO_EVEX)  // see kernels/sets/avx_vnni.h
    avx_vnni = avx512_vnni;
#endif
  }
  bool avx2 = false, avx512 = false, avx512_vnni = false, avx512_bf16 = false, avx_vnni = false;
};
#elif defined(__aarch64__)
// What the system says of this processor. Every one of the architecture has NEON.
class Processor {
 public:
#if defined(__APPLE__)
  bool dot_products = has("hw.optional.arm.FEAT_DotProd"), i8mm = has("hw.optional.arm.FEAT_I8MM");

 private:
  static bool has(const char* feature) {
    int value = 0;
    size_t size = sizeof(value);
    return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value;
  }
#else
  // HWCAP_ASIMDDP and HWCAP2_I8MM, which older headers do not have.
  bool dot_products = getauxval(AT_HWCAP) & 1ul << 20, i8mm = getauxval(AT_HWCAP2) & 1ul << 13;
#endif
};
#endif

// Set number i; one without kernels behind the last.
inline InstructionSet instruction_set(int32_t i) {
#if defined(__x86_64__)
  static const Processor processor;
  const char* avx2 = processor.avx2 ? nullptr : "AVX2 with FMA";
  const char* avx512 = processor.avx512 ? nullptr : "AVX-512";
  const char* vnni = avx512 ? avx512 : processor.avx512_vnni ? nullptr : "AVX-512 VNNI";
  const InstructionSet sets[] = {
      {&verso_kernels_avx512_bf16, vnni ? vnni : processor.avx512_bf16 ? nullptr : "AVX-512 BF16"},
      {&verso_kernels_avx512_vnni, vnni},
      {&verso_kernels_avx_vnni, avx2 ? avx2 : processor.avx_vnni ? nullptr : "AVX-VNNI"},
      {&verso_kernels_avx512, avx512},
      {&verso_kernels_avx2, avx2},
      {&verso_kernels_portable, nullptr},
  };
#elif defined(__aarch64__)
  static const Processor processor;
  const InstructionSet sets[] = {
      {&verso_kernels_neon_i8mm, processor.i8mm ? nullptr : "NEON I8MM"},
      {&verso_kernels_neon_dotprod, processor.dot_products ? nullptr : "NEON dot products"},
      {&verso_kernels_portable, nullptr},
  };
#else
  const InstructionSet sets[] = {{&verso_kernels_portable, nullptr}};
#endif
  for (const InstructionSet& one : sets)
    if (one.kernels && i-- == 0) return one;
  return {nullptr, nullptr};
}
