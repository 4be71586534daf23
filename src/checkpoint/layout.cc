#include "checkpoint/layout.h"

#include "hdf5/library.h"

namespace archipelago::checkpoint {

std::string_view role_name(model::TensorRole role) {
  switch (role) {
    case model::TensorRole::matrix:
      return "matrix";
    case model::TensorRole::vector:
      return "vector";
    case model::TensorRole::table:
      return "table";
  }
  return "";
}

model::TensorRole role_of(std::string_view name) {
  for (const auto role :
       {model::TensorRole::matrix, model::TensorRole::vector, model::TensorRole::table}) {
    if (role_name(role) == name) return role;
  }
  throw hdf5::Failure("unknown tensor role " + std::string(name));
}

}  // namespace archipelago::checkpoint
