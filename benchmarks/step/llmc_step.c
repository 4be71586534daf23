// bench_step.cc's part played by llm.c's CPU trainer, whose folder the compiler is given:
//
//   gcc -Ofast -march=native -fopenmp -DTESTING -I LLMC llmc_step.c -lm -o llmc_step
//   OMP_NUM_THREADS=threads llmc_step layers width heads context vocabulary batch

#include "train_gpt2.c"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static long peak_memory(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// It takes its model out of a file.
static void build(GPT2* model, GPT2Config config) {
  char path[] = "/tmp/llmc_step.XXXXXX";
  FILE* file = fdopen(mkstemp(path), "wb");
  int header[256] = {20240326, 3, config.max_seq_len, config.vocab_size, config.num_layers,
                     config.num_heads, config.channels, config.padded_vocab_size};
  fwrite(header, sizeof(int), 256, file);
  size_t sizes[NUM_PARAMETER_TENSORS];
  fill_in_parameter_sizes(sizes, config);
  srand(1);
  for (int tensor = 0; tensor < NUM_PARAMETER_TENSORS; ++tensor) {
    for (size_t i = 0; i < sizes[tensor]; ++i) {
      float value = 0.04f * ((float)rand() / (float)RAND_MAX - 0.5f);
      fwrite(&value, sizeof value, 1, file);
    }
  }
  fclose(file);
  gpt2_build_from_checkpoint(model, path);
  unlink(path);
}

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  GPT2Config config = {.max_seq_len = atoi(argv[4]), .vocab_size = atoi(argv[5]),
                       .padded_vocab_size = atoi(argv[5]), .num_layers = atoi(argv[1]),
                       .num_heads = atoi(argv[3]), .channels = atoi(argv[2])};
  int batch = atoi(argv[6]);
  // What the trainer says goes elsewhere than the answers.
  FILE* answers = fdopen(dup(1), "w");
  dup2(2, 1);
  long memory_before = peak_memory();
  GPT2 model;
  build(&model, config);
  int count = batch * config.max_seq_len;
  int* tokens = malloc(sizeof(int) * (size_t)(count + 1));
  for (int i = 0; i <= count; ++i) tokens[i] = rand() % config.vocab_size;
  int step = 0;
  char order[64];
  while (scanf("%63s", order) == 1) {
    if (strcmp(order, "memory") == 0) {
      fprintf(answers, "%ld\n", peak_memory() - memory_before);
    } else {
      double wall = now(CLOCK_MONOTONIC);
      double processor = now(CLOCK_PROCESS_CPUTIME_ID);
      for (int i = atoi(order); i > 0; --i) {
        gpt2_forward(&model, tokens, tokens + 1, (size_t)batch, (size_t)config.max_seq_len);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, ++step);
      }
      fprintf(answers, "%.9f %.9f\n", now(CLOCK_MONOTONIC) - wall,
              now(CLOCK_PROCESS_CPUTIME_ID) - processor);
    }
    fflush(answers);
  }
  return 0;
}
