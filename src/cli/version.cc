#include <H5public.h>
#include <dlfcn.h>
#include <mpi.h>

#include <boost/version.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/git_hash.h"
#include "cli/gpu_versions.h"
#include "core/error.h"

namespace archipelago::cli {
namespace {

// The first line of what the MPI library calls itself.
std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

// Of the library that is found now, which need not be the one that this was built with.
std::string fault_tolerance() {
  return ::dlsym(RTLD_DEFAULT, "MPIX_Comm_revoke") != nullptr ? "with fault tolerance (ULFM)"
                                                              : "without fault tolerance (ULFM)";
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(release);
}

}  // namespace

std::string version_text() {
  return std::string("archipelago " ARCHIPELAGO_VERSION " (") + kGitHash + ")\n" +
         "MPI: " + mpi_version() + ' ' + fault_tolerance() + " in " ARCHIPELAGO_MPI_PREFIX "\n" +
         "HDF5: " + hdf5_version() + "\n" + "Boost: " BOOST_LIB_VERSION "\n" +
         "compiler: GCC " __VERSION__ "\n" + gpu_versions();
}

}  // namespace archipelago::cli
