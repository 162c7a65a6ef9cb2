import { tracingChannel } from 'node:diagnostics_channel';
import { trace } from '@opentelemetry/api';
import type { AttemptReason, TracedAttempt, TracedCall } from 'evenkeel';
import { instrumentTraces, type Traces } from 'evenkeel/opentelemetry';

const traces: Traces = instrumentTraces({ tracer: trace.getTracer('shop'), propagate: false, attemptKind: 'client' });
console.log(traces.open);
traces.stop();

// @ts-expect-error: the kinds are 'internal' and 'client'.
instrumentTraces({ attemptKind: 'server' });

tracingChannel('evenkeel:attempt').start.subscribe((message) => {
  const { call, endpoint, reason, setHeader } = message as TracedAttempt;
  const why: AttemptReason = reason;
  setHeader?.('x-attempt', `${why} ${endpoint.name ?? endpoint.address}`);
  call.around((run) => run());
});
tracingChannel('evenkeel:call').asyncEnd.subscribe((message) => {
  const { target, attempts, waitedMs, outcome } = message as TracedCall;
  console.log(target, attempts, waitedMs, outcome?.kind);
});
