// What libFuzzer does, in little and without looking at coverage, for compilers that do not have it: runs inputs of a folder,
// then changed copies of them.
//
//   PROGRAM FOLDER SECONDS CRASH    fuzz; an input that ends the run is written to CRASH
//   PROGRAM FILE                    run one input again

#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kLongest = 1024;
constexpr int kSlowSeconds = 10;  // of processor time, for any input: most take a thousandth

Input current;            // what runs now
std::string crash_path;   // where it is written if the sanitizers, or abort(), end the run

void save_current() {
  if (std::FILE* file = std::fopen(crash_path.c_str(), "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
}

// Ends the run, with the input saved, if the next one takes too long.
void limit_time() {
  itimerval limit{};
  limit.it_value.tv_sec = kSlowSeconds;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

void end_slow_run(int) {
  std::fprintf(stderr, "ERROR: an input took more than %d s of processor time\n", kSlowSeconds);
  std::abort();
}

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

// A few changes: another byte, a piece moved from another input, or an end that is cut off.
Input changed(Input input, const Input& other, std::mt19937_64& random) {
  auto below = [&](size_t bound) { return bound ? random() % bound : 0; };
  for (size_t left = 1 + below(6); left; left--) switch (below(4)) {
      case 0: input.insert(input.begin() + below(input.size() + 1), (uint8_t)random()); break;
      case 1:
        if (input.size() > 1) input.resize(1 + below(input.size()));
        break;
      case 2: {
        size_t begin = below(other.size()), length = below(other.size() - begin + 1);
        input.insert(input.begin() + below(input.size() + 1), other.begin() + begin, other.begin() + begin + length);
        break;
      }
      default:
        if (!input.empty()) input[below(input.size())] = (uint8_t)random();
    }
  if (input.size() > kLongest) input.resize(kLongest);
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) {
    current = read(argv[1]);
    return LLVMFuzzerTestOneInput(current.data(), current.size());
  }
  if (argc != 4) return 2;
  crash_path = argv[3];
  __sanitizer_set_death_callback(save_current);
  std::signal(SIGPROF, end_slow_run);
  std::vector<Input> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) corpus.push_back(read(entry.path()));
  if (corpus.empty()) return 2;
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::mt19937_64 random(std::random_device{}());
  long runs = 0;
  for (; seconds() < std::atof(argv[2]); runs++) {
    const Input& one = corpus[runs < (long)corpus.size() ? runs : random() % corpus.size()];
    current = runs < (long)corpus.size() ? one : changed(one, corpus[random() % corpus.size()], random);
    limit_time();
    LLVMFuzzerTestOneInput(current.data(), current.size());
  }
  std::printf("stat::number_of_executed_units: %ld\n", runs);
  return 0;
}
