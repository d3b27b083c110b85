// Renga for C++11: handles that free themselves and are moved, not copied; errors are exceptions. Includes all of the C
// interface, whose functions take a handle where they take an object: renga::Check(RengaPipelineSetDataShortBatch(pipeline, 3)).
#pragma once
#include <renga.h>

#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace renga {

// What Renga refuses or could not do, in its sentence.
class Error : public std::runtime_error {
public:
  Error(RengaErrorCode code, const std::string &sentence) : std::runtime_error(sentence), code_(code)
  {
  }
  RengaErrorCode GetCode() const { return code_; }

private:
  RengaErrorCode code_;
};

// Throws where a function of the C interface has failed.
inline void Check(RengaErrorCode code)
{
  if (code != RENGA_SUCCESS) throw Error(code, RengaErrorGetMessage());
}

// Renga from here to the end of the scope: RengaInitialize and RengaFinalize. Errors are no longer
// printed where they are found. Objects must end before it.
class Library {
public:
  Library(int &argc, char **&argv, const char *help = nullptr)
  {
    RengaErrorSetHandler(RengaErrorIgnore, nullptr);
    Check(RengaInitialize(&argc, &argv, help));
  }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;
  // Ends earlier, with an exception where that fails.
  void Finalize()
  {
    if (!runs_) return;
    runs_ = false;
    Check(RengaFinalize());
  }
  ~Library()
  {
    if (runs_) RengaFinalize();
  }

private:
  bool runs_ = true;
};

// The owner of an object of Renga. Its end is collective, as that of the object.
template <typename Object, RengaErrorCode (*destroy)(Object *)>
class Handle {
public:
  Handle() = default;
  explicit Handle(Object taken) : object_(taken) {}
  Handle(Handle &&other) noexcept : object_(other.Release()) {}
  Handle &operator=(Handle &&other) noexcept
  {
    if (this != &other) {
      Close();
      object_ = other.Release();
    }
    return *this;
  }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() { Close(); }
  operator Object() const { return object_; } // lent
  // No longer owned here.
  Object Release()
  {
    Object object = object_;
    object_ = nullptr;
    return object;
  }
  void Close()
  {
    if (object_) destroy(&object_);
    object_ = nullptr;
  }

protected:
  Object object_ = nullptr;
};

// Processes: a private duplicate of a communicator.
class Comm : public Handle<RengaComm, RengaCommDestroy> {
public:
  Comm() = default;
  explicit Comm(MPI_Comm user) { Check(RengaCommCreate(user, &object_)); }
  int GetRank() const { return RengaCommGetRank(object_); }
  int GetSize() const { return RengaCommGetSize(object_); }
  // Collective: those of one color >= 0, in the order of key; with color -1 an empty handle.
  Comm Split(int color, int key = 0) const
  {
    Comm group;
    Check(RengaCommSplit(object_, color, key, &group.object_));
    return group;
  }
};

// A network.
class Graph : public Handle<RengaGraph, RengaGraphDestroy> {
public:
  Graph() = default;
  // Empty, to be built.
  explicit Graph(RengaComm comm) { Check(RengaGraphCreate(comm, &object_)); }
  // An ONNX file, or "gpt:layers=4,…"; set up.
  Graph(RengaComm comm, const std::string &what) : Graph(comm)
  {
    Check(RengaGraphLoad(object_, what.c_str()));
    SetUp();
  }
  void SetUp() { Check(RengaGraphSetUp(object_)); }
};

class Plan : public Handle<RengaPlan, RengaPlanDestroy> {
public:
  Plan() = default;
  explicit Plan(RengaPlan taken) : Handle(taken) {}
  static Plan Load(RengaComm comm, RengaGraph graph, const std::string &file)
  {
    Plan plan;
    Check(RengaPlanCreate(comm, &plan.object_));
    Check(RengaPlanLoad(plan, graph, file.c_str()));
    return plan;
  }
  void Save(const std::string &file) const { Check(RengaPlanSave(object_, file.c_str())); }
  int GetStageCount() const { return RengaPlanGetStageCount(object_); }
};

class Partition : public Handle<RengaPartition, RengaPartitionDestroy> {
public:
  Partition(RengaComm comm, RengaGraph graph)
  {
    Check(RengaPartitionCreate(comm, &object_));
    Check(RengaPartitionSetGraph(object_, graph));
  }
  void SetFromOptions() { Check(RengaPartitionSetFromOptions(object_)); }
  Plan Solve()
  {
    RengaPlan plan = nullptr;
    Check(RengaPartitionSolve(object_, &plan));
    return Plan(plan);
  }
};

// Samples of a step and who reads them: read(field, first, count, buffer) fills buffer with input
// number field of samples first … first + count - 1. What it throws is thrown by the call on its
// rank; other ranks get an Error.
struct Batch {
  int64_t samples;
  std::function<void(int field, int64_t first, int64_t count, void *buffer)> read;
};

class Pipeline : public Handle<RengaPipeline, RengaPipelineDestroy> {
public:
  Pipeline() = default;
  explicit Pipeline(RengaComm comm) { Check(RengaPipelineCreate(comm, &object_)); }
  void SetPlan(RengaGraph graph, RengaPlan plan)
  {
    Check(RengaPipelineSetPlan(object_, graph, plan));
  }
  void SetFromOptions() { Check(RengaPipelineSetFromOptions(object_)); }
  void SetUp() { Check(RengaPipelineSetUp(object_)); }
  // Collective: the loss, the same bits on every rank.
  double Step(const Batch &batch)
  {
    double loss = 0;
    Run(batch, [&](const RengaBatch *c) { return RengaPipelineStep(object_, c, &loss); });
    return loss;
  }
  double Evaluate(const Batch &batch)
  {
    double loss = 0;
    Run(batch, [&](const RengaBatch *c) { return RengaPipelineEvaluate(object_, c, &loss); });
    return loss;
  }
  // Collective: an output of all samples to a rank's buffer, RENGA_TO_ALL: everybody's.
  void Forward(const Batch &batch, const std::string &output, int to, void *buffer)
  {
    Run(batch, [&](const RengaBatch *c) {
      return RengaPipelineForwardTo(object_, c, output.c_str(), to, buffer);
    });
  }
  uint64_t GetDigest() const
  {
    uint64_t digest = 0;
    Check(RengaPipelineGetDigest(object_, &digest));
    return digest;
  }
  int64_t GetStepNumber() const { return RengaPipelineGetStepNumber(object_); }
  // Collective: a parameter, moment or state, whole, on all ranks.
  std::vector<float> GetParameter(const std::string &name) const
  {
    std::vector<float> values(CountOf(name));
    Check(RengaPipelineGetParameter(object_, name.c_str(), RENGA_TO_ALL, values.data()));
    return values;
  }
  void SetParameter(const std::string &name, const std::vector<float> &values)
  {
    if (values.size() != CountOf(name))
      throw Error(RENGA_ERR_SHAPE, name + " has " + std::to_string(CountOf(name)) +
                                       " elements, and " + std::to_string(values.size()) +
                                       " are given");
    Check(RengaPipelineSetParameter(object_, name.c_str(), RENGA_TO_ALL, values.data()));
  }

private:
  struct Reading {
    const Batch *batch;
    std::exception_ptr thrown;
  };
  static RengaErrorCode Read(void *user, int field, int64_t first, int64_t count, void *buffer)
  {
    Reading *reading = static_cast<Reading *>(user);
    std::string what = "an exception";
    try {
      reading->batch->read(field, first, count, buffer);
      return RENGA_SUCCESS;
    } catch (const std::exception &error) {
      what = error.what();
      reading->thrown = std::current_exception();
    } catch (...) {
      reading->thrown = std::current_exception();
    }
    return RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "renga::Batch::read", __FILE__,
                           __LINE__, "a batch could not be read: %s", what.c_str());
  }
  template <typename Call>
  void Run(const Batch &batch, Call call)
  {
    Reading reading = {&batch, nullptr};
    RengaBatch c = RengaBatch();
    c.samples = batch.samples;
    c.read = Read;
    c.user = &reading;
    const RengaErrorCode code = call(&c);
    if (reading.thrown) std::rethrow_exception(reading.thrown);
    Check(code);
  }
  // Elements of "NAME" or "NAME:first_moment".
  size_t CountOf(const std::string &name) const
  {
    const RengaPipelineParameter *list = nullptr;
    int count = 0;
    Check(RengaPipelineListParameters(object_, &count, &list));
    for (int i = 0; i < count; i++) {
      const size_t length = std::strlen(list[i].name);
      if (name.compare(0, length, list[i].name) == 0 &&
          (name.size() == length || name[length] == ':'))
        return static_cast<size_t>(RengaTensorSpecCount(&list[i].spec));
    }
    throw Error(RENGA_ERR_ARGUMENT, "there is no parameter, moment or state " + name);
  }
};

class Checkpoint : public Handle<RengaCheckpoint, RengaCheckpointDestroy> {
public:
  Checkpoint(RengaComm comm, RengaPipeline pipeline, const std::string &directory)
  {
    Check(RengaCheckpointCreate(comm, &object_));
    Check(RengaCheckpointSetPipeline(object_, pipeline));
    Check(RengaCheckpointSetDirectory(object_, directory.c_str()));
    Check(RengaCheckpointSetUp(object_));
  }
  // Collective: its path.
  std::string Write()
  {
    char *file = nullptr;
    Check(RengaCheckpointWrite(object_, &file));
    const std::string path = file;
    RengaMemoryFree(&file);
    return path;
  }
  // Collective: the steps done in the newest whole file, which is read; -1: there is none.
  int64_t Resume()
  {
    bool found = false;
    int64_t step = 0;
    Check(RengaCheckpointResume(object_, &found, &step));
    return found ? step : -1;
  }
};

} // namespace renga
