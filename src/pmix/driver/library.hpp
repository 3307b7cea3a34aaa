// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "pmix/engine/types.hpp"

namespace wireup::pmix {

/// How a PMIx call ended, as far as wireup tells outcomes apart.
enum class Outcome : std::uint8_t {
  Success,
  Partial,  ///< a fence some of whose members had left; the others' data is here
  NotFound,
  Timeout,
  Unreachable,  ///< no server, or it is gone
  Other,
};

/// An outcome with the library's own number and its name, for messages.
struct Status {
  Outcome outcome = Outcome::Other;
  int code = 0;
  const char* name = "";

  [[nodiscard]] bool is(Outcome other) const noexcept { return outcome == other; }
};

/// A value as wireup reads them: nothing, a number, a text or a byte object.
using Value = std::variant<std::monostate, std::uint64_t, std::string, std::vector<std::uint8_t>>;

/// Where answers of the library arrive. Called on the library's own thread: an implementation
/// copies, posts and returns; it must not call the library.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void operation_done(std::uint64_t id, const Status& status) = 0;
  virtual void value_done(std::uint64_t id, const Status& status, Value value) = 0;
  virtual void server_lost() = 0;
};

/// The PMIx calls that wireup makes, so that tests can let each of them fail, be late or hang. All
/// are made on the service thread. Calls with an id answer through the sink, before or after they
/// return, if they return Success; otherwise there is no answer.
class Library {
 public:
  virtual ~Library() = default;

  virtual Status init(ReplySink& sink, std::string& nspace, std::uint32_t& rank) = 0;
  virtual Status finalize() = 0;
  virtual Status put(const std::string& key, std::span<const std::uint8_t> value) = 0;
  virtual Status commit() = 0;
  /// A fence over the ranks 0 … size-1 of `nspace`, named one by one, that collects data.
  virtual Status fence(std::uint64_t id, const std::string& nspace, std::uint32_t size) = 0;
  /// `local_only`: without asking beyond this node. `patience` is passed on as a hint.
  virtual Status get(std::uint64_t id, const PeerRef& peer, const std::string& key, bool local_only,
                     Duration patience) = 0;
  enum class JobKey : std::uint8_t { Size, LocalPeers };
  virtual Status get_job_value(std::uint64_t id, const std::string& nspace, JobKey key) = 0;
};

/// The real one. There is one PMIx per process, so there is one object: init() of a second is a
/// defect.
[[nodiscard]] std::unique_ptr<Library> make_pmix_library();

}  // namespace wireup::pmix
