! A heat-equation solver that trains a surrogate of itself in its own run.
!
! Each rank solves u_t = k u_xx on [0, 1], u = 0 at both ends, for random diffusivities k and random
! first temperatures, a sum of three sines. After each round the ranks exchange what they found, and
! all of them together train a network that maps (k, three amplitudes) to the temperature at time
! 0.1. At the end it is asked for cases that it has not seen, and compared with the solver.
!
!   mpiexec -n 4 ./heat                                        a stage or replica per rank
!   mpiexec -n 4 ./heat -layout_pipeline 2 -layout_data 2
!   mpiexec -n 4 ./heat -optimizer_learning_rate 1e-3 -timeout 60
!
! What to look at: a batch is a type of the program's own (samples), whose read is asked for what a
! rank needs; Renga is started by MPI's side, after MPI_Init, on any communicator.
module heat_samples
  use, intrinsic :: iso_c_binding
  use renga
  implicit none
  integer, parameter :: N_IN = 4, GRID = 32

  type, extends(renga_batch) :: samples_batch
    real(c_float), allocatable :: x(:, :), y(:, :) ! [N_IN, samples], [GRID, samples]
  contains
    procedure :: read => read_samples
  end type

contains

  ! Field 1 is what goes in, field 2 what should come out.
  subroutine read_samples(self, field, first, count, buffer, ierror)
    class(samples_batch), intent(inout) :: self
    integer, intent(in) :: field
    integer(c_int64_t), intent(in) :: first, count
    type(c_ptr), intent(in) :: buffer
    integer, intent(inout) :: ierror
    real(c_float), pointer :: rows(:, :)
    if (first + count - 1 > size(self%x, 2)) then
      ierror = RENGA_ERR_ARGUMENT
    else if (field == 1) then
      call c_f_pointer(buffer, rows, [int(N_IN, c_int64_t), count])
      rows = self%x(:, first:first + count - 1)
    else
      call c_f_pointer(buffer, rows, [int(GRID, c_int64_t), count])
      rows = self%y(:, first:first + count - 1)
    end if
  end subroutine

  ! The solver: explicit steps in time, as long as they are stable.
  subroutine solve(x, y)
    real(c_float), intent(in) :: x(N_IN)
    real(c_float), intent(out) :: y(GRID)
    real(c_double), parameter :: end_time = 0.1d0, pi = acos(-1d0), dx = 1d0 / (GRID + 1)
    real(c_double) :: u(0:GRID + 1), diffusivity, factor
    integer :: i, k, steps
    diffusivity = 0.05d0 + 0.45d0 * x(1)
    steps = ceiling(end_time * diffusivity / (0.4d0 * dx**2))
    factor = diffusivity * end_time / steps / dx**2
    u = 0
    do k = 1, 3
      u(1:GRID) = u(1:GRID) + x(1 + k) * [(sin(k * pi * i * dx), i=1, GRID)]
    end do
    do i = 1, steps
      u(1:GRID) = u(1:GRID) + factor * (u(0:GRID - 1) - 2 * u(1:GRID) + u(2:GRID + 1))
    end do
    y = real(u(1:GRID), c_float)
  end subroutine
end module heat_samples

program heat
  use mpi_f08
  use heat_samples
  implicit none
  integer, parameter :: SAMPLES = 48, ROUNDS = 150
  type(renga_comm) :: comm
  type(renga_graph) :: graph
  type(renga_pipeline) :: pipeline
  type(samples_batch) :: batch
  real(c_double) :: loss, first_loss
  integer(c_int64_t) :: digest
  integer :: rank, size, round

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call renga_initialize()
  call renga_comm_create(MPI_COMM_WORLD, comm)
  call build(graph)
  call make_pipeline(pipeline)
  allocate(batch%x(N_IN, SAMPLES), batch%y(GRID, SAMPLES))
  batch%samples = SAMPLES
  do round = 1, ROUNDS
    call make_samples(round)
    call renga_pipeline_step(pipeline, batch, loss)
    if (round == 1) first_loss = loss
    if (rank == 0 .and. mod(round, 50) == 1) print '(a, i4, a, es10.3)', "round ", round, "  squared error ", loss
  end do
  call compare()
  call renga_pipeline_get_digest(pipeline, digest)
  if (rank == 0) print '(a, z16.16)', "digest ", digest
  call renga_pipeline_destroy(pipeline)
  call renga_graph_destroy(graph)
  call renga_comm_destroy(comm)
  call renga_finalize()
  call MPI_Finalize()
  if (loss > 0.5 * first_loss) error stop "the squared error did not fall"

contains

  subroutine build(network)
    type(renga_graph), intent(inout) :: network
    integer :: x, wanted, hidden(4), y, loss_value
    call renga_graph_create(comm, network)
    call renga_graph_add_input(network, "in", RENGA_FLOAT32, [-1, N_IN], x)
    call renga_graph_add_input(network, "temperature", RENGA_FLOAT32, [-1, GRID], wanted)
    call renga_graph_add_linear(network, "up", x, 64, .true., 0.5d0, hidden(1))
    call renga_graph_add_unary(network, "Tanh", hidden(1), hidden(2))
    call renga_graph_add_linear(network, "middle", hidden(2), 64, .true., 0.15d0, hidden(3))
    call renga_graph_add_unary(network, "Tanh", hidden(3), hidden(4))
    call renga_graph_add_linear(network, "answer", hidden(4), GRID, .true., 0.1d0, y)
    call renga_graph_add_output(network, y)
    call renga_graph_add_squared_error(network, y, wanted, 2, loss_value)
    call renga_graph_set_loss(network, loss_value)
    call renga_graph_set_up(network)
  end subroutine

  subroutine make_pipeline(made)
    type(renga_pipeline), intent(inout) :: made
    type(renga_partition) :: partition
    type(renga_plan) :: plan
    call renga_partition_create(comm, graph, partition)
    call renga_partition_set_batch(partition, SAMPLES, 4)
    call renga_partition_set_from_options(partition)
    call renga_partition_solve(partition, plan)
    call renga_partition_destroy(partition)
    call renga_pipeline_create(comm, made)
    call renga_pipeline_set_plan(made, graph, plan)
    call renga_pipeline_set_optimizer(made, "adam", 3d-3)
    call renga_pipeline_set_seed(made, 1)
    call renga_pipeline_set_from_options(made)
    call renga_pipeline_set_up(made)
    call renga_plan_destroy(plan)
  end subroutine

  ! The ranks solve samples in turn; afterwards all ranks have all of them. Samples are numbered, so
  ! they do not depend on the number of ranks.
  subroutine make_samples(number)
    integer, intent(in) :: number
    integer :: i
    batch%x = 0
    batch%y = 0
    do i = rank + 1, SAMPLES, size
      batch%x(:, i) = random(number * SAMPLES + i)
      call solve(batch%x(:, i), batch%y(:, i))
    end do
    call MPI_Allreduce(MPI_IN_PLACE, batch%x, N_IN * SAMPLES, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Allreduce(MPI_IN_PLACE, batch%y, GRID * SAMPLES, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  end subroutine

  ! A diffusivity in [0, 1) and three amplitudes in [-1, 1) for each number.
  function random(number) result(x)
    integer, intent(in) :: number
    real(c_float) :: x(N_IN)
    integer(c_int64_t) :: state
    integer :: i, k
    state = number
    do i = 1, N_IN
      do k = 1, 4
        state = mod(state * 48271_c_int64_t + 11, 2147483647_c_int64_t)
      end do
      x(i) = real(state, c_float) / 2147483648.0
    end do
    x(2:) = 2 * x(2:) - 1
  end function

  ! Samples of another round were not learned from.
  subroutine compare()
    real(c_float) :: answer(GRID, SAMPLES)
    call make_samples(ROUNDS + 1)
    call renga_pipeline_forward(pipeline, batch, "answer", RENGA_TO_ALL, answer)
    if (rank == 0) print '(a, i0, a, f5.1, a)', "on ", SAMPLES, " new cases the surrogate is off by ", &
      100 * norm2(answer - batch%y) / norm2(batch%y), " % of the solver's temperature"
  end subroutine
end program heat
