// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <variant>

#include "base/result.hpp"
#include "base/time.hpp"
#include "base/unique_fd.hpp"
#include "pmix/driver/library.hpp"

namespace wireup::pmix {

/// What the service tells an exchange.
struct GetReply {
  std::uint64_t id = 0;  ///< of the GetCall
  Status status;
  Value value;
};
struct CardIsOut {};   ///< put and commit succeeded; the fence, if any, is still to come
struct PublishEnded {  ///< the last word about a publish
  bool failed = false;
  Status status;          ///< of the call that decided it
  const char* step = "";  ///< "put", "commit" or "fence"
};
struct ServerLost {};
using Reply = std::variant<GetReply, CardIsOut, PublishEnded, ServerLost>;

/// A queue from any thread to the one owner of an exchange. Whoever may still have something to say
/// holds a reference, so an exchange can go away while PMIx works for it.
class Mailbox {
 public:
  [[nodiscard]] Result<> open();

  /// From any thread. Makes fd() readable.
  void post(Reply reply);
  /// Makes fd() readable without a reply.
  void wake() noexcept;

  /// For the owner: makes fd() unreadable. Call before take(), not after.
  void clear_fd() noexcept;
  [[nodiscard]] std::optional<Reply> take();
  /// Waits until take() has something or `deadline` passes.
  void wait(Instant deadline);
  [[nodiscard]] int fd() const noexcept { return event_.value(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Reply> replies_;
  UniqueFd event_;
};

}  // namespace wireup::pmix
