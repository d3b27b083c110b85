! The module renga on any number of ranks: errors come back, a failed read fails on all ranks, plans,
! parameters and checkpoints; a part of the ranks by itself. The last rank prints nothing.
module small_batch
  use, intrinsic :: iso_c_binding
  use renga
  implicit none
  type, extends(renga_batch) :: wave
    logical :: breaks = .false.
    integer :: asked = 0
  contains
    procedure :: read => read_wave
  end type
contains
  subroutine read_wave(self, field, first, count, buffer, ierror)
    class(wave), intent(inout) :: self
    integer, intent(in) :: field
    integer(c_int64_t), intent(in) :: first, count
    type(c_ptr), intent(in) :: buffer
    integer, intent(inout) :: ierror
    real(c_float), pointer :: x(:, :)
    integer(c_int64_t), pointer :: labels(:)
    integer(c_int64_t) :: i, k
    self%asked = self%asked + 1
    if (self%breaks) ierror = RENGA_ERR_FILE_OPEN
    if (field == 1) then
      call c_f_pointer(buffer, x, [4_c_int64_t, count])
      do i = 1, count
        x(:, i) = [(sin(real(first + i - 2 + 2 * (k - 1))), k=1, 4)]
      end do
    else
      call c_f_pointer(buffer, labels, [count])
      labels = [(mod(first + i - 2, 3_c_int64_t), i=1, count)]
    end if
  end subroutine
end module small_batch

program calls
  use mpi_f08
  use small_batch
  implicit none
  type(MPI_Comm) :: some
  type(renga_comm) :: comm
  type(renga_graph) :: graph
  type(renga_plan) :: plan, again
  type(renga_pipeline) :: pipeline, other
  type(renga_checkpoint) :: checkpoint
  type(renga_data) :: samples
  type(renga_trainer) :: trainer
  type(wave) :: batch
  character(4096) :: folder
  integer :: rank, size, failures = 0, ierror, x, y
  integer(c_int64_t) :: digest, second, step
  real(c_double) :: loss, loss_before
  real(c_float) :: bias(16), scores(3, 12)

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  ! The last rank of several is not Renga's.
  call MPI_Comm_split(MPI_COMM_WORLD, merge(1, 0, size > 2 .and. rank == size - 1), rank, some)
  if (size > 2 .and. rank == size - 1) then
    call MPI_Comm_free(some)
    call MPI_Finalize()
    stop
  end if
  call renga_set_world(some)
  call renga_initialize()
  call renga_set_quiet(.true.)
  call get_command_argument(1, folder)
  call renga_comm_create(some, comm)
  call expect(renga_comm_get_size(comm) == merge(size - 1, size, size > 2), "size")
  call expect(renga_comm_get_rank(comm) == rank, "rank")

  ! Errors.
  call renga_graph_create(comm, graph)
  call renga_graph_load(graph, "mlp:sizes=4", ierror)
  call expect(ierror == RENGA_ERR_OPTION, "code of a wrong network")
  call expect(index(renga_error_message(), "two widths") > 0, renga_error_message())
  call renga_graph_add_input(graph, "too large", RENGA_FLOAT32, [1, 1, 1, 1, 1, 1, 1, 1, 1], x, ierror)
  call expect(ierror == RENGA_ERR_ARGUMENT, "nine dimensions")
  call renga_options_set_value("timeoutt", "3", ierror)
  call expect(ierror == RENGA_ERR_OPTION .and. index(renga_error_message(), "did you mean") > 0, "option")

  ! The network of renga.hpp's and Python's tests.
  call renga_graph_load(graph, "mlp:sizes=4-16-3")
  call renga_graph_set_up(graph)
  call expect(renga_graph_find_value(graph, "l.0.bias") >= 0, "a parameter")
  call expect(renga_graph_find_value(graph, "nothing") == -1, "no such value")
  call make_plan(plan)
  call expect(renga_plan_get_stage_count(plan) == min(renga_comm_get_size(comm), 2), "stages")
  call renga_plan_save(plan, trim(folder) // "/a.plan")
  call renga_plan_load(comm, graph, trim(folder) // "/a.plan", again)
  call expect(renga_plan_get_stage_count(again) == renga_plan_get_stage_count(plan), "a plan's file")
  call renga_plan_destroy(again)
  call renga_plan_load(comm, graph, trim(folder) // "/b.plan", again, ierror)
  call expect(ierror == RENGA_ERR_FILE_OPEN, "a plan that is not there")

  ! Training, and a batch that cannot be read.
  call make(pipeline)
  batch%samples = 12
  call renga_pipeline_evaluate(pipeline, batch, loss_before)
  do x = 1, 3
    call renga_pipeline_step(pipeline, batch, loss)
  end do
  call renga_pipeline_evaluate(pipeline, batch, loss)
  call expect(loss < loss_before .and. (batch%asked > 0 .or. rank > 1), "the loss did not fall")
  call renga_pipeline_get_digest(pipeline, digest)
  if (rank == 0) print '(a, z16.16)', "after three steps ", digest
  batch%breaks = rank == 0
  call renga_pipeline_step(pipeline, batch, loss, ierror)
  call expect(ierror == RENGA_ERR_FILE_OPEN, "a failed read")
  batch%breaks = .false.
  call renga_pipeline_get_digest(pipeline, second)
  call expect(digest == second .and. renga_pipeline_get_step_number(pipeline) == 3, "a failed step")
  batch%samples = 5
  call renga_pipeline_step(pipeline, batch, loss, ierror)
  call expect(ierror == RENGA_SUCCESS, "a short batch that was announced: " // renga_error_message())

  ! Parameters, outputs, checkpoints.
  batch%samples = 12
  call renga_pipeline_forward(pipeline, batch, "l.1", RENGA_TO_ALL, scores)
  call expect(all(abs(scores) < 100) .and. any(abs(scores) > 0), "scores")
  call renga_pipeline_forward(pipeline, batch, "l.7", RENGA_TO_ALL, scores, ierror)
  call expect(ierror == RENGA_ERR_ARGUMENT, "no such output")
  call renga_pipeline_get_digest(pipeline, digest)
  call renga_pipeline_get_parameter(pipeline, "l.0.bias", RENGA_TO_ALL, bias)
  call renga_pipeline_set_parameter(pipeline, "l.0.bias", RENGA_TO_ALL, bias + 1)
  call renga_pipeline_get_digest(pipeline, second)
  call expect(digest /= second, "a parameter that was set")
  call renga_pipeline_set_parameter(pipeline, "l.0.bias", 0, bias)
  call renga_pipeline_get_digest(pipeline, second)
  call expect(digest == second, "a parameter that was set back")
  call renga_checkpoint_create(comm, pipeline, trim(folder) // "/checkpoints", checkpoint)
  call renga_checkpoint_resume(checkpoint, step)
  call expect(step == -1, "no checkpoint yet")
  call renga_checkpoint_write(checkpoint)
  call renga_checkpoint_destroy(checkpoint)
  call make(other)
  call renga_checkpoint_create(comm, other, trim(folder) // "/checkpoints", checkpoint)
  call renga_checkpoint_resume(checkpoint, step)
  call renga_pipeline_get_digest(other, second)
  call expect(step == 4 .and. digest == second, "resume")
  call renga_checkpoint_destroy(checkpoint)

  ! The loop of the library over a data set.
  call renga_pipeline_destroy(other)
  call make(other)
  call renga_options_set_value("data_samples", "17")
  call renga_data_create(comm, samples)
  call renga_data_set_from_options(samples)
  call renga_data_set_file(samples, "synthetic")
  call renga_data_set_graph(samples, graph)
  call renga_data_set_up(samples)
  call renga_data_get_count(samples, RENGA_DATA_TRAINING, step)
  call expect(step == 17, "samples")
  call renga_options_set_value("steps", "4")
  call renga_trainer_create(comm, trainer)
  call renga_trainer_set_from_options(trainer)
  call renga_trainer_set_data(trainer, graph, samples)
  call renga_trainer_run(trainer, ierror)
  call expect(ierror == RENGA_ERR_ORDER, "a trainer that is not set up")
  call renga_trainer_set_pipeline(trainer, other, 12_c_int64_t)
  call renga_trainer_set_up(trainer)
  call renga_trainer_run(trainer)
  call renga_pipeline_get_digest(other, second)
  call expect(renga_pipeline_get_step_number(other) == 4, "steps of the trainer")
  if (rank == 0) print '(a, z16.16)', "trainer ", second
  call renga_trainer_destroy(trainer)
  call renga_data_destroy(samples)

  ! Built by hand: a loss of labels.
  call renga_pipeline_destroy(other)
  call renga_pipeline_destroy(pipeline)
  call renga_plan_destroy(plan)
  call renga_graph_destroy(graph)
  call renga_graph_create(comm, graph)
  call renga_graph_add_input(graph, "x", RENGA_FLOAT32, [-1, 4], x)
  call renga_graph_add_input(graph, "labels", RENGA_INT64, [-1], y)
  call renga_graph_add_linear(graph, "scores", x, 3, .true., 0.1d0, ierror)
  call renga_graph_add_cross_entropy(graph, ierror, y, -100, x)
  call renga_graph_set_loss(graph, x)
  call renga_graph_set_up(graph)
  call make_plan(plan)
  call make(pipeline)
  call renga_pipeline_step(pipeline, batch, loss)
  call expect(abs(loss - log(3.0)) < 0.5, "a network by hand")
  call renga_pipeline_destroy(pipeline)
  call renga_plan_destroy(plan)
  call renga_graph_destroy(graph)
  call renga_comm_destroy(comm)
  call renga_finalize()
  call MPI_Comm_free(some)
  call MPI_Finalize()
  if (rank == 0) print '(a, z16.16)', "digest ", digest
  if (failures > 0) error stop 1

contains

  subroutine expect(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (.not. good) then
      print '(a, i0, 2a)', "rank ", rank, ": ", what
      failures = failures + 1
    end if
  end subroutine

  subroutine make_plan(made)
    type(renga_plan), intent(inout) :: made
    type(renga_partition) :: partition
    call renga_partition_create(comm, graph, partition)
    call renga_partition_set_type(partition, "even")
    call renga_partition_set_batch(partition, 12, 3)
    call renga_partition_set_stages(partition, min(renga_comm_get_size(comm), 2))
    call renga_partition_set_replicas(partition, 1)
    call renga_partition_set_from_options(partition)
    call renga_partition_solve(partition, made)
    call renga_partition_destroy(partition)
  end subroutine

  subroutine make(made)
    type(renga_pipeline), intent(inout) :: made
    call renga_pipeline_create(comm, made)
    call renga_pipeline_set_plan(made, graph, plan)
    call renga_pipeline_set_optimizer(made, "adam", 1d-2)
    call renga_pipeline_set_seed(made, 5)
    call renga_pipeline_set_data_short_batch(made, 5)
    call renga_pipeline_set_from_options(made)
    call renga_pipeline_set_up(made)
  end subroutine
end program calls
