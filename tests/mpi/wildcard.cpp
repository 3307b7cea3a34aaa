// SPDX-License-Identifier: BSD-3-Clause
//
// All ranks flood one, which receives with MPI_ANY_SOURCE and MPI_ANY_TAG: once into receives
// posted beforehand, once by matched probe. Whatever the order among senders, the messages of each
// one must come in the order they were sent.
//
// wildcard [MESSAGES FROM EACH [TARGETS]]
#include <algorithm>
#include <deque>
#include <string>

#include "job.hpp"

namespace mpi_tests {
namespace {

constexpr std::size_t kSizes[] = {0, 8, 100, 4000, 20'000, 100'000};
constexpr std::size_t kLargest = 100'000;
constexpr std::size_t kPosted = 8;     // receives waiting at the target
constexpr std::size_t kInFlight = 16;  // sends of one rank
constexpr int kLastTag = 32767;        // what MPI promises at least

/// Sizes mix differently for each sender.
std::size_t size_of(int from, int sequence) {
  return kSizes[static_cast<std::size_t>(sequence + from) % std::size(kSizes)];
}

void flood(Job& job, int target, int messages) {
  struct Send {
    Bytes data;
    MPI_Request request;
  };
  std::deque<Send> sends;
  for (int sequence = 0; sequence < messages; ++sequence) {
    if (sends.size() == kInFlight) {
      MPI_Wait(&sends.front().request, MPI_STATUS_IGNORE);
      sends.pop_front();
    }
    Send& send = sends.emplace_back();
    send.data.resize(size_of(job.rank(), sequence));
    job.fill(send.data, job.rank(), target, static_cast<std::uint64_t>(sequence));
    MPI_Isend(send.data.data(), static_cast<int>(send.data.size()), MPI_BYTE, target,
              sequence % kLastTag, MPI_COMM_WORLD, &send.request);
  }
  for (Send& send : sends) {
    MPI_Wait(&send.request, MPI_STATUS_IGNORE);
  }
}

/// Follows each sender's sequence.
class Receiver {
 public:
  explicit Receiver(Job& job) : job_(job), next_(static_cast<std::size_t>(job.size()), 0) {}

  void accept(const MPI_Status& status, std::span<const std::uint8_t> buffer) {
    const int from = status.MPI_SOURCE;
    job_.require(from >= 0 && from < job_.size() && from != job_.rank(),
                 "a message from rank " + std::to_string(from));
    const int sequence = next_[static_cast<std::size_t>(from)]++;
    job_.require(status.MPI_TAG == sequence % kLastTag,
                 "from rank " + std::to_string(from) + " came message " +
                     std::to_string(status.MPI_TAG) + " when " + std::to_string(sequence) +
                     " was due");
    int length = 0;
    MPI_Get_count(&status, MPI_BYTE, &length);
    job_.require(static_cast<std::size_t>(length) == size_of(from, sequence),
                 "message " + std::to_string(sequence) + " from rank " + std::to_string(from) +
                     " has " + std::to_string(length) + " bytes");
    job_.check(buffer.first(static_cast<std::size_t>(length)), from, job_.rank(),
               static_cast<std::uint64_t>(sequence));
  }

 private:
  Job& job_;
  std::vector<int> next_;
};

void receive_posted(Job& job, int messages) {
  struct Receive {
    Bytes data = Bytes(kLargest);
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Receiver receiver(job);
  int to_post = messages * (job.size() - 1);
  const auto post = [&](Receive& receive) {
    if (to_post-- > 0) {
      MPI_Irecv(receive.data.data(), static_cast<int>(kLargest), MPI_BYTE, MPI_ANY_SOURCE,
                MPI_ANY_TAG, MPI_COMM_WORLD, &receive.request);
    }
  };
  std::vector<Receive> receives(kPosted);
  for (Receive& receive : receives) {
    post(receive);
  }
  // Receives match in the order they were posted, so they are looked at in that order.
  for (std::size_t at = 0; receives[at].request != MPI_REQUEST_NULL; at = (at + 1) % kPosted) {
    MPI_Status status;
    MPI_Wait(&receives[at].request, &status);
    receiver.accept(status, receives[at].data);
    post(receives[at]);
  }
}

void receive_probed(Job& job, int messages) {
  Receiver receiver(job);
  Bytes data(kLargest);
  for (int left = messages * (job.size() - 1); left > 0; --left) {
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(data.data(), static_cast<int>(kLargest), MPI_BYTE, &message, &status);
    receiver.accept(status, data);
  }
}

}  // namespace
}  // namespace mpi_tests

int main(int argc, char** argv) {
  mpi_tests::Job job("wildcard", argc, argv);
  const int messages = job.number(0, 60);
  const int targets = std::min(job.number(1, 2), job.size());
  for (int target = 0; target < targets; ++target) {
    for (const bool probing : {false, true}) {
      if (job.rank() != target) {
        mpi_tests::flood(job, target, messages);
      } else if (probing) {
        mpi_tests::receive_probed(job, messages);
      } else {
        mpi_tests::receive_posted(job, messages);
      }
      // The next flood must not be taken for this one.
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  job.finish();
  return 0;
}
