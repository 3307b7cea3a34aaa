// SPDX-License-Identifier: BSD-3-Clause
#include "rdmacm/ops.hpp"

#include <dlfcn.h>

namespace wireup::rdmacm {
namespace {

constexpr const char* kLibrary = "librdmacm.so.1";

template <typename Function>
bool take(void* library, const char* name, Function*& to) noexcept {
  to = reinterpret_cast<Function*>(dlsym(library, name));
  return to != nullptr;
}

Result<Ops> load() {
  // It stays for the life of the process: it has threads and destructors of its own.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  Ops ops{};
  if (library == nullptr || !take(library, "rdma_create_event_channel", ops.create_event_channel) ||
      !take(library, "rdma_destroy_event_channel", ops.destroy_event_channel) ||
      !take(library, "rdma_create_id", ops.create_id) ||
      !take(library, "rdma_destroy_id", ops.destroy_id) ||
      !take(library, "rdma_resolve_addr", ops.resolve_addr) ||
      !take(library, "rdma_resolve_route", ops.resolve_route) ||
      !take(library, "rdma_get_cm_event", ops.get_cm_event) ||
      !take(library, "rdma_ack_cm_event", ops.ack_cm_event) ||
      !take(library, "rdma_bind_addr", ops.bind_addr) ||
      !take(library, "rdma_listen", ops.listen) ||
      !take(library, "rdma_set_option", ops.set_option) ||
      !take(library, "rdma_connect", ops.connect) || !take(library, "rdma_accept", ops.accept) ||
      !take(library, "rdma_establish", ops.establish) ||
      !take(library, "rdma_reject", ops.reject) ||
      !take(library, "rdma_reject_ece", ops.reject_ece) ||
      !take(library, "rdma_notify", ops.notify) ||
      !take(library, "rdma_disconnect", ops.disconnect)) {
    return fail(Error::make(Errc::Unsupported,
                            "the kernel's connection manager needs %s: install librdmacm1",
                            kLibrary));
  }
  return ops;
}

}  // namespace

Result<const Ops*> load_library() {
  static const Result<Ops> loaded = load();
  if (!loaded) {
    return fail(loaded.error());
  }
  return &*loaded;
}

}  // namespace wireup::rdmacm
