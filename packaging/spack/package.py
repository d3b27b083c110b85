from spack.package import *


class Renga(AutotoolsPackage):
    """Library and program that train neural networks in pipeline stages and data-parallel replicas on MPI, with CPUs or GPUs,
    with the same bits on any layout."""

    homepage = "https://github.com/renga-hpc/renga"
    git = "https://github.com/renga-hpc/renga.git"

    license("BSD-2-Clause")

    version("main", branch="main")

    variant("png", default=True, description="Read PNG files")
    variant("jpeg", default=True, description="Read JPEG files")
    variant("fortran", default=False, description="Module for Fortran")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("python@3:", type="build", when="+fortran")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10:")
    depends_on("zlib-api")
    depends_on("hwloc@2:")
    depends_on("openblas")
    depends_on("onednn@2.7:2 cpu_runtime=omp")
    depends_on("protobuf-c")  # its compiler, too
    depends_on("onnx", type="build")  # onnx/onnx.proto
    depends_on("xxhash")
    depends_on("json-c")
    depends_on("libpng", when="+png")
    depends_on("jpeg", when="+jpeg")

    def configure_args(self):
        spec = self.spec
        return [
            f"CC={spec['mpi'].mpicc}",
            f"--with-onnx-proto={spec['onnx'].prefix.include}",
            "--without-cuda",  # only tests need its headers
            *self.with_or_without("png"),
            *self.with_or_without("jpeg"),
            *self.with_or_without("fortran"),
        ]
