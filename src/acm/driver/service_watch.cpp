// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/service_watch.hpp"

namespace wireup::acm {

ServiceWatch::ServiceWatch(const std::string& directory, Guid port_guid, PKey pkey) {
  if (directory.empty()) {
    return;
  }
  // A directory whose name is too long for a socket has no service either.
  if (auto names = NodeDirectory::public_names(directory, port_guid, pkey)) {
    names_.emplace(std::move(*names));
  }
}

bool ServiceWatch::is_there(Instant now) {
  if (!names_.has_value()) {
    return false;
  }
  // Opened each time: the directory may have been removed and made again since.
  auto opened = NodeLockView::open(names_->lock_path());
  if (!opened) {
    state_.reset();
    return false;
  }
  state_.emplace(std::move(*opened));
  return state_->silence(now) <= kLately && state_->last_beat() > left_at_;
}

void ServiceWatch::leave(Instant now) noexcept {
  left_at_ = now;
}

Duration ServiceWatch::silence(Instant now) const noexcept {
  return state_.has_value() ? state_->silence(now) : Duration::max();
}

std::uint64_t ServiceWatch::epoch() const noexcept {
  return state_.has_value() ? state_->epoch() : 0;
}

}  // namespace wireup::acm
