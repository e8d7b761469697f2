package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	kgo "github.com/segmentio/kafka-go"

	"evalstream"
)

// ErrLost says that a partition belongs to another member now, or must be taken over
// again by this one: nothing of what was under way took effect. Drop what is in memory
// for it and join again.
var ErrLost = errors.New("partition is lost")

// ErrNoTopic says that a topic is not there.
var ErrNoTopic error = kgo.UnknownTopicOrPartition

// ErrUnknown says that a commit may or may not have taken effect. Take the partition
// over again: the committed offsets then tell.
var ErrUnknown = errors.New("outcome is not known")

// GapError says that records that were to be read next are not there.
type GapError struct {
	TopicPartition
	Want, First, End int64 // the offset that was asked for, and what the log holds
}

// Error names the partition, the offset and what is there.
func (e *GapError) Error() string {
	if e.Want > e.End {
		return fmt.Sprintf("%s@%d: log ends at %d before it: the topic was made again, or lost its end", e.TopicPartition, e.Want, e.End)
	}
	return fmt.Sprintf("%s@%d: log begins at %d: %d records are gone by retention or deletion", e.TopicPartition, e.Want, e.First, e.First-e.Want)
}

// TooLargeError says that one record is larger than its topic takes.
type TooLargeError struct {
	Topic       string
	Size, Limit int
}

// Error gives both sizes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: record of %d bytes is over the topic's max.message.bytes of %d", e.Topic, e.Size, e.Limit)
}

// retriable reports whether the same request may go well later.
func retriable(err error) bool {
	if code, ok := errors.AsType[kgo.Error](err); ok {
		switch code {
		case kgo.UnknownTopicOrPartition, kgo.NotLeaderForPartition, kgo.LeaderNotAvailable, kgo.ReplicaNotAvailable,
			kgo.BrokerNotAvailable, kgo.NetworkException, kgo.RequestTimedOut, kgo.NotEnoughReplicas, kgo.NotEnoughReplicasAfterAppend,
			kgo.GroupLoadInProgress, kgo.GroupCoordinatorNotAvailable, kgo.NotCoordinatorForGroup, kgo.ConcurrentTransactions,
			kgo.NotController, kgo.KafkaStorageError, kgo.FencedLeaderEpoch, kgo.UnknownLeaderEpoch, kgo.OffsetNotAvailable,
			kgo.ListenerNotFound, kgo.UnstableOffsetCommit, kgo.ThrottlingQuotaExceeded:
			return true
		}
		return false
	}
	return brokenLink(err)
}

// brokenLink reports whether err is about the connection, not about the request.
func brokenLink(err error) bool {
	if refused(err) != "" || isType[kgo.Error](err) { // kafka-go's codes look like a net.Error
		return false
	}
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.DeadlineExceeded)
}

// staleLeader reports whether the answer, or its absence, means that leaders must be
// looked up again.
func staleLeader(err error) bool {
	code, ok := errors.AsType[kgo.Error](err)
	if !ok {
		return true
	}
	switch code {
	case kgo.UnknownTopicOrPartition, kgo.NotLeaderForPartition, kgo.LeaderNotAvailable, kgo.ReplicaNotAvailable,
		kgo.BrokerNotAvailable, kgo.FencedLeaderEpoch, kgo.UnknownLeaderEpoch, kgo.KafkaStorageError, kgo.ListenerNotFound:
		return true
	}
	return false
}

// staleCoordinator is staleLeader for coordinators.
func staleCoordinator(err error) bool {
	code, ok := errors.AsType[kgo.Error](err)
	return !ok || code == kgo.NotCoordinatorForGroup || code == kgo.GroupCoordinatorNotAvailable || code == kgo.BrokerNotAvailable
}

// ousted reports whether another producer has taken the transactional id over.
func ousted(err error) bool {
	return errors.Is(err, kgo.InvalidProducerEpoch) || errors.Is(err, kgo.ProducerFenced) ||
		errors.Is(err, kgo.InvalidProducerIDMapping) || errors.Is(err, kgo.TransactionCoordinatorFenced)
}

// upset reports whether the broker has ended the transaction by itself, for its age or
// a restart, so that the id must be taken over again, be it by the same owner.
func upset(err error) bool {
	const transactionAbortable = kgo.Error(120)
	return errors.Is(err, kgo.InvalidTransactionState) || errors.Is(err, kgo.OutOfOrderSequenceNumber) ||
		errors.Is(err, kgo.UnknownProducerId) || errors.Is(err, transactionAbortable)
}

// fenced reports whether another owner has taken over, of the id or of the partition,
// or must.
func fenced(err error) bool {
	return ousted(err) || upset(err) || errors.Is(err, kgo.IllegalGeneration) || errors.Is(err, kgo.UnknownMemberId) ||
		errors.Is(err, kgo.RebalanceInProgress) || errors.Is(err, kgo.FencedInstanceID)
}

// refused says in plain words why a connection was refused for good; "" if it was not.
func refused(err error) string {
	if code, ok := errors.AsType[kgo.Error](err); ok {
		switch code {
		case kgo.SASLAuthenticationFailed:
			return "broker refuses the user name or password"
		case kgo.UnsupportedSASLMechanism:
			return "broker does not speak this SASL mechanism"
		case kgo.IllegalSASLState:
			return "broker does not expect SASL on this port"
		}
		return ""
	}
	switch {
	case isType[x509.UnknownAuthorityError](err):
		return "broker's certificate is signed by an authority that is not trusted"
	case isType[x509.HostnameError](err):
		return "broker's certificate is for another host"
	case isType[x509.CertificateInvalidError](err):
		return "broker's certificate is not valid"
	case isType[tls.RecordHeaderError](err):
		return "broker does not speak TLS on this port"
	case isType[tls.AlertError](err), err != nil && strings.Contains(err.Error(), "remote error: tls: "): // an alert in a net.OpError
		return "broker refuses the client's certificate, or wants one"
	case err != nil && strings.Contains(err.Error(), "expecting TLS"): // kafka-go says it only in words
		return "broker wants TLS on this port"
	}
	return ""
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// denied says which right is missing; "" if none is.
func denied(err error) string {
	code, ok := errors.AsType[kgo.Error](err)
	if !ok {
		return ""
	}
	switch code {
	case kgo.TopicAuthorizationFailed:
		return "this user has no right to the topic"
	case kgo.GroupAuthorizationFailed:
		return "this user has no right to the group"
	case kgo.ClusterAuthorizationFailed:
		return "this user has no right to do this to the cluster"
	case kgo.TransactionalIDAuthorizationFailed:
		return "this user has no right to the transactional id"
	}
	return ""
}

// said is an error in our words instead of the broker's.
type said struct {
	text string
	err  error
}

func (e *said) Error() string { return e.text }

// Unwrap is the broker's error.
func (e *said) Unwrap() error { return e.err }

// explain turns an error of the client into one for people: what it is about, what is
// wrong, and what to do next. Errors that need no words pass.
func (c *Client) explain(about string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if isType[*evalstream.ExitError](err) || isType[*GapError](err) || isType[*TooLargeError](err) || errors.Is(err, ErrLost) || errors.Is(err, ErrUnknown) {
		return err
	}
	lost := func(code int, hint, format string, args ...any) error {
		return &evalstream.ExitError{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	brokers := strings.Join(c.conf.Brokers, ",")
	if why := refused(err); why != "" {
		return lost(evalstream.ExitLost, "check "+EnvTLS+", "+EnvCA+", "+EnvMechanism+", "+EnvUsername+" and the port", "%s: %s: %w", brokers, why, err)
	}
	if why := denied(err); why != "" {
		return lost(evalstream.ExitLost, "ask for the right with kafka-acls, or set "+EnvUsername, "%w", &said{about + ": " + why, err})
	}
	if errors.Is(err, kgo.UnknownTopicOrPartition) {
		return lost(evalstream.ExitLost, "check the name, or make it: evalstream topics create PIPELINE.yaml", "%w", &said{about + ": topic is not there", err})
	}
	if errors.Is(err, kgo.InvalidTransactionTimeout) {
		return &evalstream.ExitError{
			Code: evalstream.ExitUsage, Err: fmt.Errorf("%s: %v is longer than the broker lets a transaction be open: %w", EnvTransaction, c.conf.transaction(), err),
			Hint: "lower it, or raise the broker's transaction.max.timeout.ms",
		}
	}
	if errors.Is(err, kgo.UnstableOffsetCommit) {
		return lost(evalstream.ExitLost, "see kafka-transactions find-hanging", "%w", &said{about + ": committed offsets are held open by a transaction that does not end", err})
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// A broker that cannot make sense of the first bytes hangs up without a word.
		return lost(evalstream.ExitLost, "check the port, "+EnvTLS+" and "+EnvMechanism,
			"%s: %s: broker hangs up: it is no Kafka port, or TLS or SASL is wanted or not wanted there: %w", brokers, about, err)
	}
	if brokenLink(err) {
		return lost(evalstream.ExitLost, "check that a broker listens there", "%s: %s: no answer: %w", brokers, about, err)
	}
	return lost(evalstream.ExitLost, "", "%s: %w", about, err)
}
