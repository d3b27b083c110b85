// The handles of renga.hpp: the same digest as by the functions of C, exceptions on all ranks,
// moves, a checkpoint in the folder that is named.
#include <renga.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <type_traits>

static int failures = 0;
#define EXPECT(good)                                                                               \
  do {                                                                                             \
    if (!(good)) {                                                                                 \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, #good);                                      \
      failures++;                                                                                  \
    }                                                                                              \
  } while (0)

static_assert(!std::is_copy_constructible<renga::Graph>::value, "handles are not copied");
static_assert(std::is_nothrow_move_constructible<renga::Pipeline>::value, "handles are moved");

static RengaErrorCode ReadWave(void *, int field, int64_t first, int64_t count, void *buffer)
{
  for (int64_t i = 0; i < count; i++) {
    for (int64_t k = 0; k < 4 && field == 0; k++)
      static_cast<float *>(buffer)[4 * i + k] = std::sin(static_cast<float>(first + i + 2 * k));
    if (field == 1) static_cast<int64_t *>(buffer)[i] = (first + i) % 3;
  }
  return RENGA_SUCCESS;
}

static renga::Pipeline Make(const renga::Comm &comm, const renga::Graph &graph)
{
  renga::Partition partition(comm, graph);
  renga::Check(RengaPartitionSetType(partition, RENGA_PARTITION_EVEN));
  renga::Check(RengaPartitionSetBatch(partition, 12, 3));
  renga::Check(RengaPartitionSetStages(partition, comm.GetSize() < 2 ? 1 : 2));
  partition.SetFromOptions();
  const renga::Plan plan = partition.Solve();
  EXPECT(plan.GetStageCount() == (comm.GetSize() < 2 ? 1 : 2));
  renga::Pipeline pipeline(comm);
  RengaSettings settings;
  renga::Check(RengaPipelineGetSettings(pipeline, &settings));
  renga::Check(RengaSettingsSetSeed(settings, 5));
  pipeline.SetPlan(graph, plan);
  pipeline.SetFromOptions();
  pipeline.SetUp();
  return pipeline;
}

static renga::Batch MakeBatch()
{
  return {12, [](int field, int64_t first, int64_t count, void *buffer) {
            renga::Check(ReadWave(nullptr, field, first, count, buffer));
          }};
}

static uint64_t TrainInC(const renga::Comm &comm, const renga::Graph &graph)
{
  renga::Pipeline pipeline = Make(comm, graph);
  RengaBatch batch = RengaBatch();
  double loss;
  batch.samples = 12;
  batch.read = ReadWave;
  for (int step = 0; step < 3; step++) renga::Check(RengaPipelineStep(pipeline, &batch, &loss));
  return pipeline.GetDigest();
}

static void TestErrors(const renga::Comm &comm, renga::Pipeline &pipeline)
{
  const uint64_t before = pipeline.GetDigest();
  const renga::Batch bad = {12, [](int, int64_t, int64_t, void *) {
                              throw std::runtime_error("the disk is gone");
                            }};
  std::string told;
  try {
    pipeline.Step(bad);
  } catch (const renga::Error &error) { // of another rank
    EXPECT(error.GetCode() == RENGA_ERR_ARGUMENT);
    told = "the disk is gone";
  } catch (const std::runtime_error &error) {
    told = error.what();
  }
  EXPECT(told == "the disk is gone");
  EXPECT(pipeline.GetDigest() == before);
  try {
    renga::Graph graph(comm, "mlp:sizes=4");
    EXPECT(false);
  } catch (const renga::Error &error) {
    EXPECT(error.GetCode() == RENGA_ERR_OPTION && std::strstr(error.what(), "two widths"));
  }
  try {
    pipeline.SetParameter("l.0.bias", std::vector<float>(3));
    EXPECT(false);
  } catch (const renga::Error &error) {
    EXPECT(error.GetCode() == RENGA_ERR_SHAPE);
  }
}

static void TestState(const renga::Comm &comm, const renga::Graph &graph, renga::Pipeline &pipeline,
                      const std::string &directory)
{
  const uint64_t before = pipeline.GetDigest();
  std::vector<float> scores(12 * 3), bias = pipeline.GetParameter("l.0.bias");
  pipeline.Forward(MakeBatch(), "l.1", RENGA_TO_ALL, scores.data());
  EXPECT(bias.size() == 16 && scores[0] != 0 && std::isfinite(scores[35]));
  EXPECT(pipeline.GetParameter("l.0.bias:first_moment").size() == 16);
  pipeline.SetParameter("l.0.bias", std::vector<float>(16, 1));
  EXPECT(pipeline.GetDigest() != before);
  pipeline.SetParameter("l.0.bias", bias);
  EXPECT(pipeline.GetDigest() == before);
  {
    renga::Checkpoint checkpoint(comm, pipeline, directory);
    EXPECT(checkpoint.Write().find(directory) == 0);
  }
  renga::Pipeline other = Make(comm, graph);
  renga::Checkpoint checkpoint(comm, other, directory);
  EXPECT(checkpoint.Resume() == 3 && other.GetStepNumber() == 3 && other.GetDigest() == before);
}

static void Run(const std::string &directory)
{
  const renga::Comm comm(MPI_COMM_WORLD);
  const renga::Comm half = comm.Split(comm.GetRank() % 2);
  EXPECT(half.GetSize() <= (comm.GetSize() + 1) / 2 && comm.Split(-1) == nullptr);
  renga::Graph built(comm, "mlp:sizes=4-16-3");
  const renga::Graph graph = std::move(built);
  EXPECT(built == nullptr && graph != nullptr);
  renga::Pipeline pipeline;
  pipeline = Make(comm, graph);
  const renga::Batch batch = MakeBatch();
  double loss = 0;
  for (int step = 0; step < 3; step++) loss = pipeline.Step(batch);
  EXPECT(std::isfinite(loss) && pipeline.Evaluate(batch) < loss);
  const uint64_t digest = pipeline.GetDigest();
  EXPECT(digest == TrainInC(comm, graph));
  TestErrors(comm, pipeline);
  TestState(comm, graph, pipeline, directory);
  renga::Check(RengaPrintf(MPI_COMM_WORLD, "digest %016llx\n", (unsigned long long)digest));
}

int main(int argc, char **argv)
{
  try {
    renga::Library library(argc, argv);
    Run(argc > 1 ? argv[1] : ".");
    library.Finalize();
  } catch (const renga::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    RengaErrorAbort(error.GetCode());
  }
  return failures > 0;
}
