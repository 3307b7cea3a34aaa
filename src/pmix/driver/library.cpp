// SPDX-License-Identifier: BSD-3-Clause
#include "pmix/driver/library.hpp"

#include <pmix.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"

namespace wireup::pmix {
namespace {

// The library's callbacks carry an id and no pointer, so that one that comes after everybody gave
// up touches nothing that may be gone. The sink lives as long as the process.
std::atomic<ReplySink*> g_sink{nullptr};

void* as_cookie(std::uint64_t id) noexcept {
  static_assert(sizeof(void*) >= sizeof(std::uint64_t), "ids travel in a void*");
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(id));  // NOLINT: a number, not a place
}

std::uint64_t as_id(void* cookie) noexcept {
  return reinterpret_cast<std::uintptr_t>(cookie);
}

Status status_of(pmix_status_t code) noexcept {
  Status status{Outcome::Other, code, PMIx_Error_string(code)};
  switch (code) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
      status.outcome = Outcome::Success;
      break;
    case PMIX_ERR_PARTIAL_SUCCESS:
      status.outcome = Outcome::Partial;
      break;
    case PMIX_ERR_NOT_FOUND:
    case PMIX_ERR_EXISTS_OUTSIDE_SCOPE:
      status.outcome = Outcome::NotFound;
      break;
    case PMIX_ERR_TIMEOUT:
      status.outcome = Outcome::Timeout;
      break;
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_INIT:
      status.outcome = Outcome::Unreachable;
      break;
    default:
      break;
  }
  return status;
}

/// Launchers give the same key in different integer types.
Value value_of(const pmix_value_t* value) {
  if (value == nullptr) {
    return {};
  }
  switch (value->type) {
    case PMIX_UINT8:
      return std::uint64_t{value->data.uint8};
    case PMIX_UINT16:
      return std::uint64_t{value->data.uint16};
    case PMIX_UINT32:
      return std::uint64_t{value->data.uint32};
    case PMIX_UINT64:
      return std::uint64_t{value->data.uint64};
    case PMIX_PROC_RANK:
      return std::uint64_t{value->data.rank};
    case PMIX_SIZE:
      return std::uint64_t{value->data.size};
    case PMIX_INT:
      return value->data.integer < 0 ? Value{}
                                     : Value{static_cast<std::uint64_t>(value->data.integer)};
    case PMIX_STRING:
      return value->data.string == nullptr ? Value{} : Value{std::string(value->data.string)};
    case PMIX_BYTE_OBJECT: {
      const pmix_byte_object_t& object = value->data.bo;
      if (object.bytes == nullptr) {
        return {};
      }
      std::vector<std::uint8_t> bytes(object.size);
      std::transform(object.bytes, object.bytes + object.size, bytes.begin(),
                     [](char c) { return static_cast<std::uint8_t>(c); });
      return bytes;
    }
    default:
      return {};
  }
}

/// Attributes of one call.
class Attributes {
 public:
  ~Attributes() {
    for (std::size_t i = 0; i < count_; ++i) {
      PMIX_INFO_DESTRUCT(&info_[i]);
    }
  }
  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  void add_flag(const char* name) {
    bool yes = true;
    add(name, &yes, PMIX_BOOL);
  }
  void add_seconds(const char* name, Duration time) {
    const auto whole = std::chrono::ceil<std::chrono::seconds>(time).count();
    int seconds =
        static_cast<int>(std::clamp<std::int64_t>(whole, 1, std::numeric_limits<int>::max()));
    add(name, &seconds, PMIX_INT);
  }
  [[nodiscard]] pmix_info_t* data() noexcept { return info_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  void add(const char* name, const void* value, pmix_data_type_t type) {
    WIREUP_CHECK(count_ < info_.size());
    pmix_info_t& info = info_[count_++];
    PMIX_INFO_CONSTRUCT(&info);
    static_cast<void>(PMIx_Info_load(&info, name, value, type));
  }

  std::array<pmix_info_t, 2> info_{};
  std::size_t count_ = 0;
};

/// What a call points to. The library reads it on its own thread after the call has returned
/// (measured with 4.2: a Get_nb's attributes), so it is kept until the answer.
struct CallData {
  std::vector<pmix_proc_t> procs;
  std::string key;
  Attributes attributes;
};

/// The data of the calls that have no answer yet; of a call that is never answered, for ever.
class CallBook {
 public:
  std::shared_ptr<CallData> add(std::uint64_t id) {
    auto data = std::make_shared<CallData>();
    const std::lock_guard lock(mutex_);
    calls_.emplace(id, data);
    return data;
  }
  void remove(std::uint64_t id) {
    std::shared_ptr<CallData> data;  // destroyed outside the lock
    const std::lock_guard lock(mutex_);
    if (const auto found = calls_.find(id); found != calls_.end()) {
      data = std::move(found->second);
      calls_.erase(found);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<CallData>> calls_;
};

/// Never destroyed: the library's thread may use it until the process is gone.
CallBook& call_book() {
  static CallBook* const book = new CallBook;
  return *book;
}

void on_operation(pmix_status_t code, void* cookie) {
  call_book().remove(as_id(cookie));
  if (ReplySink* sink = g_sink.load()) {
    sink->operation_done(as_id(cookie), status_of(code));
  }
}

void on_value(pmix_status_t code, pmix_value_t* value, void* cookie) {
  call_book().remove(as_id(cookie));
  if (ReplySink* sink = g_sink.load()) {
    sink->value_done(as_id(cookie), status_of(code),
                     code == PMIX_SUCCESS ? value_of(value) : Value{});
  }
}

void on_server_lost(std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t*, std::size_t,
                    pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done,
                    void* done_data) {
  if (ReplySink* sink = g_sink.load()) {
    sink->server_lost();
  }
  if (done != nullptr) {
    // Part of the handler's contract, not a request to the library. Others that watch for this
    // event, such as MPI, are to see it too.
    done(PMIX_EVENT_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, done_data);
  }
}

class PmixLibrary final : public Library {
 public:
  Status init(ReplySink& sink, std::string& nspace, std::uint32_t& rank) override {
    ReplySink* expected = nullptr;
    WIREUP_CHECK(g_sink.compare_exchange_strong(expected, &sink) || expected == &sink);
    pmix_proc_t self{};
    const pmix_status_t code = PMIx_Init(&self, nullptr, 0);
    if (code != PMIX_SUCCESS) {
      return status_of(code);
    }
    // The array is as long as the header's PMIX_MAX_NSLEN + 1 and ends with NUL.
    nspace.assign(self.nspace);
    rank = self.rank;
    // Without a callback the call waits for the registration and returns its number, or an error
    // below 0. An error only means that the end of the server is noticed by failing calls.
    std::array<pmix_status_t, 1> codes = {PMIX_ERR_LOST_CONNECTION};
    static_cast<void>(PMIx_Register_event_handler(codes.data(), codes.size(), nullptr, 0,
                                                  on_server_lost, nullptr, nullptr));
    return status_of(PMIX_SUCCESS);
  }

  Status finalize() override { return status_of(PMIx_Finalize(nullptr, 0)); }

  Status put(const std::string& key, std::span<const std::uint8_t> value) override {
    std::vector<char> bytes(value.size());
    std::transform(value.begin(), value.end(), bytes.begin(),
                   [](std::uint8_t b) { return static_cast<char>(b); });
    pmix_value_t wrapped{};
    wrapped.type = PMIX_BYTE_OBJECT;
    wrapped.data.bo.bytes = bytes.data();
    wrapped.data.bo.size = bytes.size();
    return status_of(PMIx_Put(PMIX_GLOBAL, key.c_str(), &wrapped));
  }

  Status commit() override { return status_of(PMIx_Commit()); }

  Status fence(std::uint64_t id, const std::string& nspace, std::uint32_t size) override {
    const std::shared_ptr<CallData> data = call_book().add(id);
    data->procs.resize(size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      PMIX_LOAD_PROCID(&data->procs[rank], nspace.c_str(), rank);
    }
    data->attributes.add_flag(PMIX_COLLECT_DATA);
    const pmix_status_t code =
        PMIx_Fence_nb(data->procs.data(), data->procs.size(), data->attributes.data(),
                      data->attributes.size(), on_operation, as_cookie(id));
    if (code == PMIX_OPERATION_SUCCEEDED) {  // done at once; no callback will come
      on_operation(PMIX_SUCCESS, as_cookie(id));
    } else if (code != PMIX_SUCCESS) {
      call_book().remove(id);
    }
    return status_of(code);
  }

  Status get(std::uint64_t id, const PeerRef& peer, const std::string& key, bool local_only,
             Duration patience) override {
    const std::shared_ptr<CallData> data = call_book().add(id);
    if (local_only) {
      data->attributes.add_flag(PMIX_OPTIONAL);
    }
    data->attributes.add_seconds(PMIX_TIMEOUT, patience);
    return get_value(id, *data, peer.nspace, peer.rank, key);
  }

  Status get_job_value(std::uint64_t id, const std::string& nspace, JobKey key) override {
    const std::shared_ptr<CallData> data = call_book().add(id);
    data->attributes.add_flag(PMIX_OPTIONAL);
    return get_value(id, *data, nspace, PMIX_RANK_WILDCARD,
                     key == JobKey::Size ? PMIX_JOB_SIZE : PMIX_LOCAL_PEERS);
  }

 private:
  static Status get_value(std::uint64_t id, CallData& data, const std::string& nspace,
                          pmix_rank_t rank, std::string key) {
    data.procs.resize(1);
    PMIX_LOAD_PROCID(data.procs.data(), nspace.c_str(), rank);
    data.key = std::move(key);
    const pmix_status_t code =
        PMIx_Get_nb(data.procs.data(), data.key.c_str(), data.attributes.data(),
                    data.attributes.size(), on_value, as_cookie(id));
    if (code == PMIX_SUCCESS) {
      return status_of(code);
    }
    call_book().remove(id);
    if (code == PMIX_OPERATION_SUCCEEDED) {
      // "Done, no callback" cannot carry a value; taken as no answer, so it is asked again.
      return Status{Outcome::Other, code, PMIx_Error_string(code)};
    }
    return status_of(code);
  }
};

}  // namespace

std::unique_ptr<Library> make_pmix_library() {
  return std::make_unique<PmixLibrary>();
}

}  // namespace wireup::pmix
