#include "hdf5/attribute.h"

#include <vector>

namespace archipelago::hdf5 {
namespace {

Datatype text_type(std::size_t size) {
  Datatype type(H5Tcopy(H5T_C_S1), "make a text type");
  check(H5Tset_size(type.get(), size), "make a text type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "make a text type");
  return type;
}

// h5py's own encoding of a truth value.
Datatype flag_type() {
  Datatype type(H5Tenum_create(H5T_STD_I8LE), "make a flag type");
  const signed char no = 0;
  const signed char yes = 1;
  check(H5Tenum_insert(type.get(), "FALSE", &no), "make a flag type");
  check(H5Tenum_insert(type.get(), "TRUE", &yes), "make a flag type");
  return type;
}

void write_scalar(hid_t object, const std::string& name, const Datatype& type, const void* value) {
  const std::string doing = "write attribute " + name;
  const Dataspace space(H5Screate(H5S_SCALAR), doing);
  const Attribute attribute(
      H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), doing);
  check(H5Awrite(attribute.get(), type.get(), value), doing);
}

std::string fixed_text(const Attribute& attribute, const Datatype& type, const std::string& doing) {
  std::string text(H5Tget_size(type.get()), '\0');
  check(H5Aread(attribute.get(), type.get(), text.data()), doing);
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

std::string variable_text(const Attribute& attribute, const Datatype& type,
                          const std::string& doing) {
  char* memory = nullptr;
  check(H5Aread(attribute.get(), type.get(), &memory), doing);
  std::string text(memory == nullptr ? "" : memory);
  check(H5free_memory(memory), doing);
  return text;
}

}  // namespace

void write_attribute(hid_t object, const std::string& name, std::string_view text) {
  const std::string terminated(text);
  const char* pointer = terminated.c_str();
  write_scalar(object, name, text_type(H5T_VARIABLE), &pointer);
}

void write_fixed_text(hid_t object, const std::string& name, std::string_view text) {
  const std::string terminated(text);
  write_scalar(object, name, text_type(terminated.size() + 1), terminated.c_str());
}

void write_flag(hid_t object, const std::string& name, bool value) {
  const signed char byte = value ? 1 : 0;
  write_scalar(object, name, flag_type(), &byte);
}

bool has_attribute(hid_t object, const std::string& name) {
  return check(H5Aexists(object, name.c_str()), "look for attribute " + name) > 0;
}

Attribute open_scalar(hid_t object, const std::string& name, H5T_class_t type_class) {
  const std::string doing = "read attribute " + name;
  if (!has_attribute(object, name)) throw Failure("cannot " + doing + ": it is missing");
  Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), doing);
  const Datatype type(H5Aget_type(attribute.get()), doing);
  const Dataspace space(H5Aget_space(attribute.get()), doing);
  if (H5Tget_class(type.get()) != type_class || H5Sget_simple_extent_npoints(space.get()) != 1) {
    throw Failure("cannot " + doing + ": it has another type or shape than expected");
  }
  return attribute;
}

bool is_unsigned(const Attribute& attribute, const std::string& name) {
  const Datatype type(H5Aget_type(attribute.get()), "read attribute " + name);
  return H5Tget_sign(type.get()) == H5T_SGN_NONE;
}

std::string read_text(hid_t object, const std::string& name) {
  const std::string doing = "read attribute " + name;
  const Attribute attribute = open_scalar(object, name, H5T_STRING);
  const Datatype type(H5Aget_type(attribute.get()), doing);
  const bool variable = check(H5Tis_variable_str(type.get()), doing) > 0;
  return variable ? variable_text(attribute, type, doing) : fixed_text(attribute, type, doing);
}

std::string read_fixed_text(hid_t object, const std::string& name) {
  const std::string doing = "read attribute " + name;
  const Attribute attribute = open_scalar(object, name, H5T_STRING);
  const Datatype type(H5Aget_type(attribute.get()), doing);
  if (check(H5Tis_variable_str(type.get()), doing) > 0) {
    throw Failure("cannot " + doing + ": it is text of variable length, which nothing protects");
  }
  return fixed_text(attribute, type, doing);
}

bool read_flag(hid_t object, const std::string& name) {
  const Attribute attribute = open_scalar(object, name, H5T_ENUM);
  signed char value = 0;
  check(H5Aread(attribute.get(), flag_type().get(), &value), "read attribute " + name);
  return value != 0;
}

std::map<std::string, std::string> read_texts(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "list attributes");
  std::map<std::string, std::string> texts;
  for (const std::string& name : names) {
    const Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), "open attribute " + name);
    const Datatype type(H5Aget_type(attribute.get()), "read attribute " + name);
    if (H5Tget_class(type.get()) == H5T_STRING) texts[name] = read_text(object, name);
  }
  return texts;
}

}  // namespace archipelago::hdf5
