// SPDX-License-Identifier: BSD-3-Clause
#include "api/entry.hpp"

#include <cstdio>
#include <cstring>

#include "api/guard.hpp"

namespace wireup::api {

wireup_status_t null_argument(const char* call) noexcept {
  char text[96];
  std::snprintf(text, sizeof text, "%s: an argument is NULL", call);
  return report_text(WIREUP_ERR_INVALID_ARGUMENT, text);
}

wireup_status_t small_struct(const char* call) noexcept {
  char text[128];
  std::snprintf(text, sizeof text, "%s: struct_size is not set to the size of the struct", call);
  return report_text(WIREUP_ERR_INVALID_ARGUMENT, text);
}

wireup_status_t to_status(const Result<>& result) noexcept {
  return result ? WIREUP_OK : report(result.error());
}

Result<PeerId> peer_id(const wireup_context_t& context, const wireup_peer_t& peer) {
  const char* nspace = peer.nspace != nullptr ? peer.nspace : "";
  if (::strnlen(nspace, PeerId::kMaxNamespace + 1) > PeerId::kMaxNamespace) {
    return fail(Error::make(Errc::InvalidArgument, "the peer's namespace is longer than %zu bytes",
                            PeerId::kMaxNamespace));
  }
  return context.driver->job().id_of({nspace, peer.rank});
}

}  // namespace wireup::api
