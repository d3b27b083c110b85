#!/bin/sh
# TEST ranks: 8
# Renga on Open MPI: the tests of messages, of pipelines and of checkpoints. Debian's packages are unpacked beside the build,
# not installed, since they would become the MPI of the machine; skipped where they cannot be had.
. "${0%/*}/common.sh"
packages="libopenmpi3 libopenmpi-dev openmpi-bin openmpi-common libpmix2 libevent-2.1-7 libevent-core-2.1-7 libevent-extra-2.1-7
  libevent-pthreads-2.1-7 libfabric1 libpsm-infinipath1 libpsm2-2 libmunge2 libhdf5-openmpi-dev libhdf5-openmpi-103-1"
tests="test/comm/blocks test/comm/folds test/comm/groups test/comm/messages test/comm/sums test/comm/tree test/transport/messages
  test/pipeline/gradient test/pipeline/layouts test/pipeline/shard test/pipeline/together test/checkpoint/parts test/checkpoint/resume"
cd "$scratch"
# shellcheck disable=SC2086
apt-get download -qq $packages >got 2>&1 || { cat got; echo "no packages of Open MPI to be had"; exit 77; }
for package in *.deb; do dpkg -x "$package" root; done
libraries=$(ls -d "$scratch"/root/usr/lib/*-linux-gnu)
cat >env.sh <<TXT
export OPAL_PREFIX=$scratch/root/usr OPAL_LIBDIR=$libraries OPAL_DATADIR=$scratch/root/usr/share OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
export LD_LIBRARY_PATH=$libraries:$libraries/openmpi/lib:$libraries/hdf5/openmpi PATH=$scratch/root/usr/bin:$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mca_base_component_show_load_errors=0
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_osc=^ucx
TXT
. ./env.sh
printf '#!/bin/sh\nexec mpiexec.openmpi --oversubscribe "$@"\n' >mpiexec
chmod +x mpiexec
configure_in openmpi --enable-werror --disable-static --without-cuda --without-fortran CC=gcc CFLAGS=-O1 \
  CPPFLAGS="-I$libraries/openmpi/include" LIBS="-L$libraries -L$libraries/openmpi/lib -lmpi" \
  HDF5_CFLAGS="-I$scratch/root/usr/include/hdf5/openmpi" HDF5_LIBS="-L$libraries/hdf5/openmpi -L$libraries -lhdf5_openmpi"
make -s -j"$jobs"
# shellcheck disable=SC2086
make -s -j"$jobs" $tests
# shellcheck disable=SC2086
MPIEXEC="$scratch/mpiexec" python3 "$source/test/run.py" $tests
