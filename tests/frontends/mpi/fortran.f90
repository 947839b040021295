! Open MPI's Fortran bindings: calls of mpif.h's names, with MPI_IN_PLACE, and a non-blocking one.
program calls
  use mpi
  implicit none
  integer :: error, rank, ranks, own, total, request(1), i, statuses(MPI_STATUS_SIZE, 1)
  double precision :: values(1000)
  complex(kind(1d0)) :: sums(10)
  logical :: is_done
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  own = rank + 1
  call MPI_Allreduce(own, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (total /= ranks * (ranks + 1) / 2) stop 2
  values = rank
  call MPI_Allreduce(MPI_IN_PLACE, values, 1000, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  if (any(values /= ranks - 1)) stop 3
  sums = cmplx(1, rank, kind(1d0))
  call MPI_Allreduce(MPI_IN_PLACE, sums, 10, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(sums /= cmplx(ranks, ranks * (ranks - 1) / 2, kind(1d0)))) stop 4
  do i = 1, 3
    own = rank
    call MPI_Ibcast(own, 1, MPI_INTEGER, 1, MPI_COMM_WORLD, request(1), error)
    if (i == 1) call MPI_Wait(request(1), MPI_STATUS_IGNORE, error)
    if (i == 2) call MPI_Waitall(1, request, statuses, error)
    is_done = i /= 3
    do while (.not. is_done)
      call MPI_Test(request(1), is_done, MPI_STATUS_IGNORE, error)
    end do
    if (own /= 1) stop 5
  end do
  if (rank == 0) print '(a)', 'fortran ends'
  call MPI_Finalize(error)
end program
