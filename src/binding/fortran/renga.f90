! Renga from Fortran 2008: the calls that a simulation needs. Each has the name of the C function in
! small letters with underscores, and its arguments; doc/languages.md has the rules. A subroutine
! without ierror ends all ranks where it fails, as MPI does.
module renga
  use, intrinsic :: iso_c_binding
  use mpi_f08, only: MPI_Comm
  implicit none
  private

  ! Codes of errors, and types of data, as in the headers.
  integer(c_int), parameter, public :: RENGA_SUCCESS = 0, RENGA_ERR_MEMORY = 1, RENGA_ERR_SUPPORT = 2, &
    RENGA_ERR_ORDER = 3, RENGA_ERR_ARGUMENT = 4, RENGA_ERR_OPTION = 5, RENGA_ERR_SHAPE = 6, &
    RENGA_ERR_GRAPH = 7, RENGA_ERR_FILE_OPEN = 8, RENGA_ERR_FILE_FORMAT = 9, RENGA_ERR_FILE_WRITE = 10, &
    RENGA_ERR_PLAN = 11, RENGA_ERR_NUMERIC = 12, RENGA_ERR_TIMEOUT = 13, RENGA_ERR_LIBRARY = 14, &
    RENGA_ERR_INTERNAL = 15
  integer(c_int), parameter, public :: RENGA_FLOAT32 = 0, RENGA_INT32 = 8, RENGA_INT64 = 10
  integer(c_int), parameter, public :: RENGA_TO_ALL = -1
  integer, parameter :: MAX_DIM = 8

  type, public :: renga_comm
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: renga_graph
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: renga_plan
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: renga_partition
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: renga_pipeline
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: renga_checkpoint
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! A batch: extend it with what your read needs. samples: over all replicas. read fills buffer, by
  ! c_f_pointer, with input number field (from 1) of samples first ... first + count - 1 (from 1);
  ! ierror other than 0 makes the call fail on all ranks. Only ranks that need a field are asked.
  type, abstract, public :: renga_batch
    integer(c_int64_t) :: samples = 0
  contains
    procedure(read_batch), deferred :: read
  end type
  abstract interface
    subroutine read_batch(self, field, first, count, buffer, ierror)
      import
      class(renga_batch), intent(inout) :: self
      integer, intent(in) :: field
      integer(c_int64_t), intent(in) :: first, count
      type(c_ptr), intent(in) :: buffer
      integer, intent(inout) :: ierror
    end subroutine
  end interface

  ! What stands in RengaBatch.user.
  type :: reading
    class(renga_batch), pointer :: batch => null()
  end type

  type, bind(c) :: tensor_spec
    integer(c_int) :: type, ndim
    integer(c_int64_t) :: dim(MAX_DIM)
  end type
  type, bind(c) :: attributes
    integer(c_int) :: count = 0
    type(c_ptr) :: row = c_null_ptr
  end type
  type, bind(c) :: c_batch
    integer(c_int64_t) :: samples
    type(c_funptr) :: read
    type(c_ptr) :: user
  end type

  public :: renga_set_world, renga_initialize, renga_finalize, renga_error_message, renga_set_quiet
  public :: renga_options_set_value, renga_error_abort
  public :: renga_comm_create, renga_comm_destroy, renga_comm_get_rank, renga_comm_get_size
  public :: renga_graph_create, renga_graph_load, renga_graph_add_input, renga_graph_add_linear
  public :: renga_graph_add_unary, renga_graph_add_node, renga_graph_add_cross_entropy
  public :: renga_graph_add_squared_error, renga_graph_add_output, renga_graph_set_loss
  public :: renga_graph_set_up, renga_graph_destroy, renga_graph_find_value
  public :: renga_partition_create, renga_partition_set_batch, renga_partition_set_type
  public :: renga_partition_set_stages, renga_partition_set_replicas, renga_partition_set_from_options
  public :: renga_partition_solve, renga_partition_destroy
  public :: renga_plan_save, renga_plan_load, renga_plan_get_stage_count, renga_plan_destroy
  public :: renga_pipeline_create, renga_pipeline_set_plan, renga_pipeline_set_seed
  public :: renga_pipeline_set_optimizer, renga_pipeline_set_data_short_batch
  public :: renga_pipeline_set_from_options, renga_pipeline_set_up, renga_pipeline_step
  public :: renga_pipeline_evaluate, renga_pipeline_forward, renga_pipeline_get_parameter
  public :: renga_pipeline_set_parameter, renga_pipeline_get_digest, renga_pipeline_get_step_number
  public :: renga_pipeline_destroy
  public :: renga_checkpoint_create, renga_checkpoint_write, renga_checkpoint_resume
  public :: renga_checkpoint_destroy

  ! The C interface, word for word: a test compares names and numbers of arguments with the headers.
  interface
    function c_set_world(comm) bind(c, name="RengaSetWorldFortran") result(code)
      import
      integer(c_int), value :: comm
      integer(c_int) :: code
    end function
    function c_initialize(argc, argv, help) bind(c, name="RengaInitialize") result(code)
      import
      integer(c_int) :: argc, code
      type(c_ptr) :: argv
      type(c_ptr), value :: help
    end function
    function c_finalize() bind(c, name="RengaFinalize") result(code)
      import
      integer(c_int) :: code
    end function
    subroutine c_abort(code) bind(c, name="RengaErrorAbort")
      import
      integer(c_int), value :: code
    end subroutine
    function c_message() bind(c, name="RengaErrorGetMessage") result(text)
      import
      type(c_ptr) :: text
    end function
    subroutine c_ignore(report, user) bind(c, name="RengaErrorIgnore")
      import
      type(c_ptr), value :: report, user
    end subroutine
    subroutine c_set_handler(handler, user) bind(c, name="RengaErrorSetHandler")
      import
      type(c_funptr), value :: handler
      type(c_ptr), value :: user
    end subroutine
    function c_set_option(name, text) bind(c, name="RengaOptionsSetValue") result(code)
      import
      character(kind=c_char), intent(in) :: name(*), text(*)
      integer(c_int) :: code
    end function
    function c_comm_create(user, comm) bind(c, name="RengaCommCreateFortran") result(code)
      import
      integer(c_int), value :: user
      type(c_ptr) :: comm
      integer(c_int) :: code
    end function
    function c_comm_destroy(comm) bind(c, name="RengaCommDestroy") result(code)
      import
      type(c_ptr) :: comm
      integer(c_int) :: code
    end function
    function c_rank(comm) bind(c, name="RengaCommGetRank") result(number)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: number
    end function
    function c_size(comm) bind(c, name="RengaCommGetSize") result(number)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: number
    end function
    function c_graph_create(comm, graph) bind(c, name="RengaGraphCreate") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: graph
      integer(c_int) :: code
    end function
    function c_graph_load(graph, what) bind(c, name="RengaGraphLoad") result(code)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: what(*)
      integer(c_int) :: code
    end function
    function c_graph_set_up(graph) bind(c, name="RengaGraphSetUp") result(code)
      import
      type(c_ptr), value :: graph
      integer(c_int) :: code
    end function
    function c_graph_destroy(graph) bind(c, name="RengaGraphDestroy") result(code)
      import
      type(c_ptr) :: graph
      integer(c_int) :: code
    end function
    function c_add_input(graph, name, spec, made) bind(c, name="RengaGraphAddInput") result(code)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      type(tensor_spec), intent(in) :: spec
      integer(c_int) :: made, code
    end function
    function c_add_linear(graph, name, x, width, bias, deviation, y) bind(c, name="RengaGraphAddLinear") &
        result(code)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: x
      integer(c_int64_t), value :: width
      logical(c_bool), value :: bias
      real(c_double), value :: deviation
      integer(c_int) :: y, code
    end function
    function c_add_unary(graph, op, x, y) bind(c, name="RengaGraphAddUnary") result(code)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int), value :: x
      integer(c_int) :: y, code
    end function
    function c_add_node(graph, op, name, given_attributes, n_in, in, n_out, given, out) &
        bind(c, name="RengaGraphAddNode") result(code)
      import
      type(c_ptr), value :: graph, name, given_attributes, given
      character(kind=c_char), intent(in) :: op(*)
      integer(c_int), value :: n_in, n_out
      integer(c_int), intent(in) :: in(*)
      integer(c_int), intent(out) :: out(*)
      integer(c_int) :: code
    end function
    function c_set_int(list, name, number) bind(c, name="RengaAttributesSetInt") result(code)
      import
      type(attributes) :: list
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: number
      integer(c_int) :: code
    end function
    function c_set_ints(list, name, count, numbers) bind(c, name="RengaAttributesSetInts") result(code)
      import
      type(attributes) :: list
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: numbers(*)
      integer(c_int) :: code
    end function
    function c_attributes_free(list) bind(c, name="RengaAttributesFree") result(code)
      import
      type(attributes) :: list
      integer(c_int) :: code
    end function
    function c_add_cross_entropy(graph, scores, labels, ignore_index, loss) &
        bind(c, name="RengaGraphAddCrossEntropy") result(code)
      import
      type(c_ptr), value :: graph
      integer(c_int), value :: scores, labels
      integer(c_int64_t), value :: ignore_index
      integer(c_int) :: loss, code
    end function
    function c_add_output(graph, node) bind(c, name="RengaGraphAddOutput") result(code)
      import
      type(c_ptr), value :: graph
      integer(c_int), value :: node
      integer(c_int) :: code
    end function
    function c_set_loss(graph, node) bind(c, name="RengaGraphSetLoss") result(code)
      import
      type(c_ptr), value :: graph
      integer(c_int), value :: node
      integer(c_int) :: code
    end function
    function c_find_value(graph, name) bind(c, name="RengaGraphFindValue") result(found)
      import
      type(c_ptr), value :: graph
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: found
    end function
    function c_partition_create(comm, partition) bind(c, name="RengaPartitionCreate") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: partition
      integer(c_int) :: code
    end function
    function c_partition_set_graph(partition, graph) bind(c, name="RengaPartitionSetGraph") result(code)
      import
      type(c_ptr), value :: partition, graph
      integer(c_int) :: code
    end function
    function c_partition_set_batch(partition, batch, microbatch) bind(c, name="RengaPartitionSetBatch") &
        result(code)
      import
      type(c_ptr), value :: partition
      integer(c_int64_t), value :: batch, microbatch
      integer(c_int) :: code
    end function
    function c_partition_set_type(partition, name) bind(c, name="RengaPartitionSetType") result(code)
      import
      type(c_ptr), value :: partition
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function
    function c_partition_set_stages(partition, stages) bind(c, name="RengaPartitionSetStages") result(code)
      import
      type(c_ptr), value :: partition
      integer(c_int), value :: stages
      integer(c_int) :: code
    end function
    function c_partition_set_replicas(partition, replicas) bind(c, name="RengaPartitionSetReplicas") &
        result(code)
      import
      type(c_ptr), value :: partition
      integer(c_int), value :: replicas
      integer(c_int) :: code
    end function
    function c_partition_set_from_options(partition) bind(c, name="RengaPartitionSetFromOptions") result(code)
      import
      type(c_ptr), value :: partition
      integer(c_int) :: code
    end function
    function c_partition_solve(partition, plan) bind(c, name="RengaPartitionSolve") result(code)
      import
      type(c_ptr), value :: partition
      type(c_ptr) :: plan
      integer(c_int) :: code
    end function
    function c_partition_destroy(partition) bind(c, name="RengaPartitionDestroy") result(code)
      import
      type(c_ptr) :: partition
      integer(c_int) :: code
    end function
    function c_plan_create(comm, plan) bind(c, name="RengaPlanCreate") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: plan
      integer(c_int) :: code
    end function
    function c_plan_save(plan, file) bind(c, name="RengaPlanSave") result(code)
      import
      type(c_ptr), value :: plan
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int) :: code
    end function
    function c_plan_load(plan, graph, file) bind(c, name="RengaPlanLoad") result(code)
      import
      type(c_ptr), value :: plan, graph
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int) :: code
    end function
    function c_stage_count(plan) bind(c, name="RengaPlanGetStageCount") result(number)
      import
      type(c_ptr), value :: plan
      integer(c_int) :: number
    end function
    function c_plan_destroy(plan) bind(c, name="RengaPlanDestroy") result(code)
      import
      type(c_ptr) :: plan
      integer(c_int) :: code
    end function
    function c_pipeline_create(comm, pipeline) bind(c, name="RengaPipelineCreate") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: pipeline
      integer(c_int) :: code
    end function
    function c_pipeline_set_plan(pipeline, graph, plan) bind(c, name="RengaPipelineSetPlan") result(code)
      import
      type(c_ptr), value :: pipeline, graph, plan
      integer(c_int) :: code
    end function
    function c_get_settings(pipeline, settings) bind(c, name="RengaPipelineGetSettings") result(code)
      import
      type(c_ptr), value :: pipeline
      type(c_ptr) :: settings
      integer(c_int) :: code
    end function
    function c_settings_set_seed(settings, seed) bind(c, name="RengaSettingsSetSeed") result(code)
      import
      type(c_ptr), value :: settings
      integer(c_int64_t), value :: seed
      integer(c_int) :: code
    end function
    function c_get_optimizer(pipeline, optimizer) bind(c, name="RengaPipelineGetOptimizer") result(code)
      import
      type(c_ptr), value :: pipeline
      type(c_ptr) :: optimizer
      integer(c_int) :: code
    end function
    function c_optimizer_set_type(optimizer, name) bind(c, name="RengaOptimizerSetType") result(code)
      import
      type(c_ptr), value :: optimizer
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: code
    end function
    function c_set_learning_rate(optimizer, rate) bind(c, name="RengaOptimizerSetLearningRate") result(code)
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: rate
      integer(c_int) :: code
    end function
    function c_short_batch(pipeline, samples) bind(c, name="RengaPipelineSetDataShortBatch") result(code)
      import
      type(c_ptr), value :: pipeline
      integer(c_int64_t), value :: samples
      integer(c_int) :: code
    end function
    function c_pipeline_set_from_options(pipeline) bind(c, name="RengaPipelineSetFromOptions") result(code)
      import
      type(c_ptr), value :: pipeline
      integer(c_int) :: code
    end function
    function c_pipeline_set_up(pipeline) bind(c, name="RengaPipelineSetUp") result(code)
      import
      type(c_ptr), value :: pipeline
      integer(c_int) :: code
    end function
    function c_step(pipeline, batch, loss) bind(c, name="RengaPipelineStep") result(code)
      import
      type(c_ptr), value :: pipeline
      type(c_batch), intent(in) :: batch
      real(c_double) :: loss
      integer(c_int) :: code
    end function
    function c_evaluate(pipeline, batch, loss) bind(c, name="RengaPipelineEvaluate") result(code)
      import
      type(c_ptr), value :: pipeline
      type(c_batch), intent(in) :: batch
      real(c_double) :: loss
      integer(c_int) :: code
    end function
    function c_forward(pipeline, batch, output, to, buffer) bind(c, name="RengaPipelineForwardTo") result(code)
      import
      type(c_ptr), value :: pipeline, buffer
      type(c_batch), intent(in) :: batch
      character(kind=c_char), intent(in) :: output(*)
      integer(c_int), value :: to
      integer(c_int) :: code
    end function
    function c_get_parameter(pipeline, name, to, buffer) bind(c, name="RengaPipelineGetParameter") result(code)
      import
      type(c_ptr), value :: pipeline, buffer
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: to
      integer(c_int) :: code
    end function
    function c_set_parameter(pipeline, name, from, buffer) bind(c, name="RengaPipelineSetParameter") result(code)
      import
      type(c_ptr), value :: pipeline, buffer
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: from
      integer(c_int) :: code
    end function
    function c_digest(pipeline, digest) bind(c, name="RengaPipelineGetDigest") result(code)
      import
      type(c_ptr), value :: pipeline
      integer(c_int64_t) :: digest
      integer(c_int) :: code
    end function
    function c_step_number(pipeline) bind(c, name="RengaPipelineGetStepNumber") result(number)
      import
      type(c_ptr), value :: pipeline
      integer(c_int64_t) :: number
    end function
    function c_pipeline_destroy(pipeline) bind(c, name="RengaPipelineDestroy") result(code)
      import
      type(c_ptr) :: pipeline
      integer(c_int) :: code
    end function
    function c_checkpoint_create(comm, checkpoint) bind(c, name="RengaCheckpointCreate") result(code)
      import
      type(c_ptr), value :: comm
      type(c_ptr) :: checkpoint
      integer(c_int) :: code
    end function
    function c_checkpoint_set_pipeline(checkpoint, pipeline) bind(c, name="RengaCheckpointSetPipeline") &
        result(code)
      import
      type(c_ptr), value :: checkpoint, pipeline
      integer(c_int) :: code
    end function
    function c_checkpoint_set_directory(checkpoint, directory) bind(c, name="RengaCheckpointSetDirectory") &
        result(code)
      import
      type(c_ptr), value :: checkpoint
      character(kind=c_char), intent(in) :: directory(*)
      integer(c_int) :: code
    end function
    function c_checkpoint_set_up(checkpoint) bind(c, name="RengaCheckpointSetUp") result(code)
      import
      type(c_ptr), value :: checkpoint
      integer(c_int) :: code
    end function
    function c_checkpoint_write(checkpoint, file) bind(c, name="RengaCheckpointWrite") result(code)
      import
      type(c_ptr), value :: checkpoint, file
      integer(c_int) :: code
    end function
    function c_checkpoint_resume(checkpoint, found, step) bind(c, name="RengaCheckpointResume") result(code)
      import
      type(c_ptr), value :: checkpoint
      logical(c_bool) :: found
      integer(c_int64_t) :: step
      integer(c_int) :: code
    end function
    function c_checkpoint_destroy(checkpoint) bind(c, name="RengaCheckpointDestroy") result(code)
      import
      type(c_ptr) :: checkpoint
      integer(c_int) :: code
    end function
  end interface

contains
  ! What the calls share.

  subroutine finish(code, ierror)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: ierror
    if (present(ierror)) then
      ierror = code
    else if (code /= RENGA_SUCCESS) then
      call c_abort(code)
    end if
  end subroutine

  pure function to_c(text) result(copy)
    character(*), intent(in) :: text
    character(kind=c_char) :: copy(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      copy(i) = text(i:i)
    end do
    copy(len_trim(text) + 1) = c_null_char
  end function

  function read_for_c(user, field, first, count, buffer) bind(c) result(code)
    type(c_ptr), value :: user, buffer
    integer(c_int), value :: field
    integer(c_int64_t), value :: first, count
    integer(c_int) :: code
    type(reading), pointer :: now
    integer :: ierror
    call c_f_pointer(user, now)
    ierror = 0
    call now%batch%read(field + 1, first + 1, count, buffer, ierror)
    code = RENGA_SUCCESS
    if (ierror /= 0) code = RENGA_ERR_ARGUMENT
    if (ierror > 0 .and. ierror <= RENGA_ERR_INTERNAL) code = ierror
  end function

  ! Start and end.

  ! Before renga_initialize and after MPI_Init: the processes that Renga runs on.
  subroutine renga_set_world(comm, ierror)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out), optional :: ierror
    call finish(c_set_world(comm%MPI_VAL), ierror)
  end subroutine

  ! Collective. Options are read from the program's command line.
  subroutine renga_initialize(ierror)
    integer, intent(out), optional :: ierror
    type word
      character(kind=c_char), allocatable :: text(:)
    end type
    type(word), allocatable, target, save :: words(:)
    type(c_ptr), allocatable, target, save :: pointers(:)
    character(:), allocatable :: one
    integer(c_int) :: argc
    type(c_ptr) :: argv
    integer :: i, length
    argc = command_argument_count() + 1
    if (.not. allocated(words)) allocate(words(0:argc - 1), pointers(0:argc))
    pointers(argc) = c_null_ptr
    do i = 0, argc - 1
      call get_command_argument(i, length=length)
      if (allocated(one)) deallocate(one)
      allocate(character(length) :: one)
      call get_command_argument(i, one)
      words(i)%text = to_c(one)
      pointers(i) = c_loc(words(i)%text)
    end do
    argv = c_loc(pointers)
    call finish(c_initialize(argc, argv, c_null_ptr), ierror)
  end subroutine

  subroutine renga_finalize(ierror)
    integer, intent(out), optional :: ierror
    call finish(c_finalize(), ierror)
  end subroutine

  ! The sentence of the last error.
  function renga_error_message() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    integer :: i, length
    call c_f_pointer(c_message(), bytes, [8192])
    length = 0
    do while (bytes(length + 1) /= c_null_char)
      length = length + 1
    end do
    allocate(character(length) :: text)
    do i = 1, length
      text(i:i) = bytes(i)
    end do
  end function

  ! .true.: errors are not printed where they are found.
  subroutine renga_set_quiet(quiet)
    logical, intent(in) :: quiet
    call c_set_handler(merge(c_funloc(c_ignore), c_null_funptr, quiet), c_null_ptr)
  end subroutine

  ! Ends all ranks with an error.
  subroutine renga_error_abort(code)
    integer, intent(in) :: code
    call c_abort(int(code, c_int))
  end subroutine

  subroutine renga_options_set_value(name, text, ierror)
    character(*), intent(in) :: name, text
    integer, intent(out), optional :: ierror
    call finish(c_set_option(to_c(name), to_c(text)), ierror)
  end subroutine

  ! Processes.

  subroutine renga_comm_create(user, comm, ierror)
    type(MPI_Comm), intent(in) :: user
    type(renga_comm), intent(inout) :: comm
    integer, intent(out), optional :: ierror
    call finish(c_comm_create(user%MPI_VAL, comm%handle), ierror)
  end subroutine

  subroutine renga_comm_destroy(comm, ierror)
    type(renga_comm), intent(inout) :: comm
    integer, intent(out), optional :: ierror
    call finish(c_comm_destroy(comm%handle), ierror)
  end subroutine

  integer function renga_comm_get_rank(comm) result(number)
    type(renga_comm), intent(in) :: comm
    number = c_rank(comm%handle)
  end function

  integer function renga_comm_get_size(comm) result(number)
    type(renga_comm), intent(in) :: comm
    number = c_size(comm%handle)
  end function

  ! Networks.

  subroutine renga_graph_create(comm, graph, ierror)
    type(renga_comm), intent(in) :: comm
    type(renga_graph), intent(inout) :: graph
    integer, intent(out), optional :: ierror
    call finish(c_graph_create(comm%handle, graph%handle), ierror)
  end subroutine

  ! An ONNX file, or "mlp:sizes=4-16-3" and the like.
  subroutine renga_graph_load(graph, what, ierror)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: what
    integer, intent(out), optional :: ierror
    call finish(c_graph_load(graph%handle, to_c(what)), ierror)
  end subroutine

  ! dims: the shape in the order of C, the slowest first, which is the batch: [-1, 4] is an array
  ! x(4, samples) of Fortran.
  subroutine renga_graph_add_input(graph, name, data_type, dims, x, ierror)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: data_type
    integer, intent(in) :: dims(:)
    integer, intent(out) :: x
    integer, intent(out), optional :: ierror
    type(tensor_spec) :: spec
    integer(c_int) :: code
    x = -1
    code = RENGA_ERR_ARGUMENT
    if (size(dims) <= MAX_DIM) then
      spec = tensor_spec(data_type, size(dims), 0)
      spec%dim(:size(dims)) = dims
      code = c_add_input(graph%handle, to_c(name), spec, x)
    end if
    call finish(code, ierror)
  end subroutine

  subroutine renga_graph_add_linear(graph, name, x, width, bias, deviation, y, ierror)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: name
    integer, intent(in) :: x, width
    logical, intent(in) :: bias
    real(c_double), intent(in) :: deviation
    integer, intent(out) :: y
    integer, intent(out), optional :: ierror
    call finish(c_add_linear(graph%handle, to_c(name), x, int(width, c_int64_t), &
                             logical(bias, c_bool), deviation, y), ierror)
  end subroutine

  subroutine renga_graph_add_unary(graph, op, x, y, ierror)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: op
    integer, intent(in) :: x
    integer, intent(out) :: y
    integer, intent(out), optional :: ierror
    call finish(c_add_unary(graph%handle, to_c(op), x, y), ierror)
  end subroutine

  ! An operator of ONNX with one output. axes, keepdims: of operators that reduce; others that have
  ! attributes stand in files.
  subroutine renga_graph_add_node(graph, op, in, out, axes, keepdims, ierror)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: op
    integer, intent(in) :: in(:)
    integer, intent(out) :: out
    integer, intent(in), optional :: axes(:)
    logical, intent(in), optional :: keepdims
    integer, intent(out), optional :: ierror
    type(attributes), target :: list
    integer(c_int) :: code, freed, made(1)
    code = RENGA_SUCCESS
    made = -1
    if (present(axes)) &
      code = c_set_ints(list, to_c("axes"), size(axes), int(axes, c_int64_t))
    if (present(keepdims) .and. code == RENGA_SUCCESS) &
      code = c_set_int(list, to_c("keepdims"), merge(1_c_int64_t, 0_c_int64_t, keepdims))
    if (code == RENGA_SUCCESS) &
      code = c_add_node(graph%handle, to_c(op), c_null_ptr, c_loc(list), size(in), in, 1, c_null_ptr, made)
    freed = c_attributes_free(list)
    out = made(1)
    call finish(code, ierror)
  end subroutine

  ! Mean over the labels of the batch.
  subroutine renga_graph_add_cross_entropy(graph, scores, labels, ignore_index, loss, ierror)
    type(renga_graph), intent(in) :: graph
    integer, intent(in) :: scores, labels, ignore_index
    integer, intent(out) :: loss
    integer, intent(out), optional :: ierror
    call finish(c_add_cross_entropy(graph%handle, scores, labels, int(ignore_index, c_int64_t), loss), &
                ierror)
  end subroutine

  ! The mean over samples and n_dims - 1 further dimensions of (a - b)**2.
  subroutine renga_graph_add_squared_error(graph, a, b, n_dims, loss, ierror)
    type(renga_graph), intent(in) :: graph
    integer, intent(in) :: a, b, n_dims
    integer, intent(out) :: loss
    integer, intent(out), optional :: ierror
    integer :: code, difference, square, i
    loss = -1
    call renga_graph_add_node(graph, "Sub", [a, b], difference, ierror=code)
    if (code == RENGA_SUCCESS) &
      call renga_graph_add_node(graph, "Mul", [difference, difference], square, ierror=code)
    if (code == RENGA_SUCCESS) &
      call renga_graph_add_node(graph, "ReduceMean", [square], loss, [(i, i=0, n_dims - 1)], .false., code)
    call finish(int(code, c_int), ierror)
  end subroutine

  ! Kept, to be asked for by its name (renga_pipeline_forward).
  subroutine renga_graph_add_output(graph, x, ierror)
    type(renga_graph), intent(in) :: graph
    integer, intent(in) :: x
    integer, intent(out), optional :: ierror
    call finish(c_add_output(graph%handle, x), ierror)
  end subroutine

  subroutine renga_graph_set_loss(graph, loss, ierror)
    type(renga_graph), intent(in) :: graph
    integer, intent(in) :: loss
    integer, intent(out), optional :: ierror
    call finish(c_set_loss(graph%handle, loss), ierror)
  end subroutine

  subroutine renga_graph_set_up(graph, ierror)
    type(renga_graph), intent(in) :: graph
    integer, intent(out), optional :: ierror
    call finish(c_graph_set_up(graph%handle), ierror)
  end subroutine

  ! -1: there is none.
  integer function renga_graph_find_value(graph, name) result(found)
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: name
    found = c_find_value(graph%handle, to_c(name))
  end function

  subroutine renga_graph_destroy(graph, ierror)
    type(renga_graph), intent(inout) :: graph
    integer, intent(out), optional :: ierror
    call finish(c_graph_destroy(graph%handle), ierror)
  end subroutine

  ! Plans.

  subroutine renga_partition_create(comm, graph, partition, ierror)
    type(renga_comm), intent(in) :: comm
    type(renga_graph), intent(in) :: graph
    type(renga_partition), intent(inout) :: partition
    integer, intent(out), optional :: ierror
    integer(c_int) :: code, ended
    code = c_partition_create(comm%handle, partition%handle)
    if (code == RENGA_SUCCESS) then
      code = c_partition_set_graph(partition%handle, graph%handle)
      if (code /= RENGA_SUCCESS) ended = c_partition_destroy(partition%handle)
    end if
    call finish(code, ierror)
  end subroutine

  ! microbatch 0: the planner chooses.
  subroutine renga_partition_set_batch(partition, batch, microbatch, ierror)
    type(renga_partition), intent(in) :: partition
    integer, intent(in) :: batch, microbatch
    integer, intent(out), optional :: ierror
    call finish(c_partition_set_batch(partition%handle, int(batch, c_int64_t), &
                                      int(microbatch, c_int64_t)), ierror)
  end subroutine

  subroutine renga_partition_set_type(partition, name, ierror)
    type(renga_partition), intent(in) :: partition
    character(*), intent(in) :: name
    integer, intent(out), optional :: ierror
    call finish(c_partition_set_type(partition%handle, to_c(name)), ierror)
  end subroutine

  subroutine renga_partition_set_stages(partition, stages, ierror)
    type(renga_partition), intent(in) :: partition
    integer, intent(in) :: stages
    integer, intent(out), optional :: ierror
    call finish(c_partition_set_stages(partition%handle, stages), ierror)
  end subroutine

  subroutine renga_partition_set_replicas(partition, replicas, ierror)
    type(renga_partition), intent(in) :: partition
    integer, intent(in) :: replicas
    integer, intent(out), optional :: ierror
    call finish(c_partition_set_replicas(partition%handle, replicas), ierror)
  end subroutine

  subroutine renga_partition_set_from_options(partition, ierror)
    type(renga_partition), intent(in) :: partition
    integer, intent(out), optional :: ierror
    call finish(c_partition_set_from_options(partition%handle), ierror)
  end subroutine

  subroutine renga_partition_solve(partition, plan, ierror)
    type(renga_partition), intent(in) :: partition
    type(renga_plan), intent(inout) :: plan
    integer, intent(out), optional :: ierror
    call finish(c_partition_solve(partition%handle, plan%handle), ierror)
  end subroutine

  subroutine renga_partition_destroy(partition, ierror)
    type(renga_partition), intent(inout) :: partition
    integer, intent(out), optional :: ierror
    call finish(c_partition_destroy(partition%handle), ierror)
  end subroutine

  subroutine renga_plan_save(plan, file, ierror)
    type(renga_plan), intent(in) :: plan
    character(*), intent(in) :: file
    integer, intent(out), optional :: ierror
    call finish(c_plan_save(plan%handle, to_c(file)), ierror)
  end subroutine

  subroutine renga_plan_load(comm, graph, file, plan, ierror)
    type(renga_comm), intent(in) :: comm
    type(renga_graph), intent(in) :: graph
    character(*), intent(in) :: file
    type(renga_plan), intent(inout) :: plan
    integer, intent(out), optional :: ierror
    integer(c_int) :: code, ended
    code = c_plan_create(comm%handle, plan%handle)
    if (code == RENGA_SUCCESS) then
      code = c_plan_load(plan%handle, graph%handle, to_c(file))
      if (code /= RENGA_SUCCESS) ended = c_plan_destroy(plan%handle)
    end if
    call finish(code, ierror)
  end subroutine

  integer function renga_plan_get_stage_count(plan) result(number)
    type(renga_plan), intent(in) :: plan
    number = c_stage_count(plan%handle)
  end function

  subroutine renga_plan_destroy(plan, ierror)
    type(renga_plan), intent(inout) :: plan
    integer, intent(out), optional :: ierror
    call finish(c_plan_destroy(plan%handle), ierror)
  end subroutine

  ! Training.

  subroutine renga_pipeline_create(comm, pipeline, ierror)
    type(renga_comm), intent(in) :: comm
    type(renga_pipeline), intent(inout) :: pipeline
    integer, intent(out), optional :: ierror
    call finish(c_pipeline_create(comm%handle, pipeline%handle), ierror)
  end subroutine

  subroutine renga_pipeline_set_plan(pipeline, graph, plan, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    type(renga_graph), intent(in) :: graph
    type(renga_plan), intent(in) :: plan
    integer, intent(out), optional :: ierror
    call finish(c_pipeline_set_plan(pipeline%handle, graph%handle, plan%handle), ierror)
  end subroutine

  subroutine renga_pipeline_set_seed(pipeline, seed, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    integer, intent(in) :: seed
    integer, intent(out), optional :: ierror
    type(c_ptr) :: settings
    integer(c_int) :: code
    code = c_get_settings(pipeline%handle, settings)
    if (code == RENGA_SUCCESS) code = c_settings_set_seed(settings, int(seed, c_int64_t))
    call finish(code, ierror)
  end subroutine

  ! name: sgd, adam, adamw; other settings by options.
  subroutine renga_pipeline_set_optimizer(pipeline, name, learning_rate, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    character(*), intent(in) :: name
    real(c_double), intent(in) :: learning_rate
    integer, intent(out), optional :: ierror
    type(c_ptr) :: optimizer
    integer(c_int) :: code
    code = c_get_optimizer(pipeline%handle, optimizer)
    if (code == RENGA_SUCCESS) code = c_optimizer_set_type(optimizer, to_c(name))
    if (code == RENGA_SUCCESS) code = c_set_learning_rate(optimizer, learning_rate)
    call finish(code, ierror)
  end subroutine

  ! Some steps have so many samples.
  subroutine renga_pipeline_set_data_short_batch(pipeline, samples, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    integer, intent(in) :: samples
    integer, intent(out), optional :: ierror
    call finish(c_short_batch(pipeline%handle, int(samples, c_int64_t)), ierror)
  end subroutine

  subroutine renga_pipeline_set_from_options(pipeline, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    integer, intent(out), optional :: ierror
    call finish(c_pipeline_set_from_options(pipeline%handle), ierror)
  end subroutine

  subroutine renga_pipeline_set_up(pipeline, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    integer, intent(out), optional :: ierror
    call finish(c_pipeline_set_up(pipeline%handle), ierror)
  end subroutine

  ! Collective: trains with a batch; the loss before the update, the same bits on every rank.
  subroutine renga_pipeline_step(pipeline, batch, loss, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    class(renga_batch), intent(inout), target :: batch
    real(c_double), intent(out) :: loss
    integer, intent(out), optional :: ierror
    type(reading), target :: now
    now%batch => batch
    loss = 0
    call finish(c_step(pipeline%handle, c_batch(batch%samples, c_funloc(read_for_c), c_loc(now)), loss), &
                ierror)
  end subroutine

  subroutine renga_pipeline_evaluate(pipeline, batch, loss, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    class(renga_batch), intent(inout), target :: batch
    real(c_double), intent(out) :: loss
    integer, intent(out), optional :: ierror
    type(reading), target :: now
    now%batch => batch
    loss = 0
    call finish(c_evaluate(pipeline%handle, c_batch(batch%samples, c_funloc(read_for_c), c_loc(now)), &
                           loss), ierror)
  end subroutine

  ! Collective: a float32 output of all samples, buffer(..., samples), to a rank or RENGA_TO_ALL.
  subroutine renga_pipeline_forward(pipeline, batch, output, to, buffer, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    class(renga_batch), intent(inout), target :: batch
    character(*), intent(in) :: output
    integer, intent(in) :: to
    real(c_float), intent(inout), target, contiguous :: buffer(:, :)
    integer, intent(out), optional :: ierror
    type(reading), target :: now
    now%batch => batch
    call finish(c_forward(pipeline%handle, c_batch(batch%samples, c_funloc(read_for_c), c_loc(now)), &
                          to_c(output), to, c_loc(buffer)), ierror)
  end subroutine

  ! Collective: a parameter, moment or state, whole, in the order of C, to a rank or RENGA_TO_ALL.
  subroutine renga_pipeline_get_parameter(pipeline, name, to, buffer, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    character(*), intent(in) :: name
    integer, intent(in) :: to
    real(c_float), intent(inout), target, contiguous :: buffer(:)
    integer, intent(out), optional :: ierror
    call finish(c_get_parameter(pipeline%handle, to_c(name), to, c_loc(buffer)), ierror)
  end subroutine

  subroutine renga_pipeline_set_parameter(pipeline, name, from, buffer, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    character(*), intent(in) :: name
    integer, intent(in) :: from
    real(c_float), intent(in), target, contiguous :: buffer(:)
    integer, intent(out), optional :: ierror
    call finish(c_set_parameter(pipeline%handle, to_c(name), from, c_loc(buffer)), ierror)
  end subroutine

  subroutine renga_pipeline_get_digest(pipeline, digest, ierror)
    type(renga_pipeline), intent(in) :: pipeline
    integer(c_int64_t), intent(out) :: digest
    integer, intent(out), optional :: ierror
    digest = 0
    call finish(c_digest(pipeline%handle, digest), ierror)
  end subroutine

  integer(c_int64_t) function renga_pipeline_get_step_number(pipeline) result(number)
    type(renga_pipeline), intent(in) :: pipeline
    number = c_step_number(pipeline%handle)
  end function

  subroutine renga_pipeline_destroy(pipeline, ierror)
    type(renga_pipeline), intent(inout) :: pipeline
    integer, intent(out), optional :: ierror
    call finish(c_pipeline_destroy(pipeline%handle), ierror)
  end subroutine

  ! Checkpoints.

  subroutine renga_checkpoint_create(comm, pipeline, directory, checkpoint, ierror)
    type(renga_comm), intent(in) :: comm
    type(renga_pipeline), intent(in) :: pipeline
    character(*), intent(in) :: directory
    type(renga_checkpoint), intent(inout) :: checkpoint
    integer, intent(out), optional :: ierror
    integer(c_int) :: code, ended
    code = c_checkpoint_create(comm%handle, checkpoint%handle)
    if (code == RENGA_SUCCESS) then
      code = c_checkpoint_set_pipeline(checkpoint%handle, pipeline%handle)
      if (code == RENGA_SUCCESS) code = c_checkpoint_set_directory(checkpoint%handle, to_c(directory))
      if (code == RENGA_SUCCESS) code = c_checkpoint_set_up(checkpoint%handle)
      if (code /= RENGA_SUCCESS) ended = c_checkpoint_destroy(checkpoint%handle)
    end if
    call finish(code, ierror)
  end subroutine

  subroutine renga_checkpoint_write(checkpoint, ierror)
    type(renga_checkpoint), intent(in) :: checkpoint
    integer, intent(out), optional :: ierror
    call finish(c_checkpoint_write(checkpoint%handle, c_null_ptr), ierror)
  end subroutine

  ! step: those done in the newest whole file, which is read; -1: there is none.
  subroutine renga_checkpoint_resume(checkpoint, step, ierror)
    type(renga_checkpoint), intent(in) :: checkpoint
    integer(c_int64_t), intent(out) :: step
    integer, intent(out), optional :: ierror
    logical(c_bool) :: found
    integer(c_int) :: code
    found = .false.
    step = 0
    code = c_checkpoint_resume(checkpoint%handle, found, step)
    if (.not. found) step = -1
    call finish(code, ierror)
  end subroutine

  subroutine renga_checkpoint_destroy(checkpoint, ierror)
    type(renga_checkpoint), intent(inout) :: checkpoint
    integer, intent(out), optional :: ierror
    call finish(c_checkpoint_destroy(checkpoint%handle), ierror)
  end subroutine
end module renga
