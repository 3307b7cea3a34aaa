// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/send_request.hpp"

#include "softhca/hca/memory.hpp"

namespace softhca::hca {

StoredRequest::StoredRequest(const SendRequest& request)
    : request_(request), sges_(request.sges.begin(), request.sges.end()) {
  if (request.av != nullptr) {
    av_ = *request.av;  // the program may destroy the handle while its send waits
    request_.av = &av_;
  }
  if (request.inline_data()) {
    inline_data_.resize(request.length());
    std::size_t at = 0;
    for (ibv_sge& sge : sges_) {
      copy_bytes(inline_data_.data() + at, reinterpret_cast<const void*>(sge.addr), sge.length);
      sge.addr = reinterpret_cast<std::uint64_t>(inline_data_.data() + at);
      at += sge.length;
    }
  }
  request_.sges = sges_;
}

}  // namespace softhca::hca
