import { channel } from 'node:diagnostics_channel';
import { type Context, context, propagation, type Span, SpanKind, type Tracer, trace } from '@opentelemetry/api';
import {
  attemptChannels,
  callChannels,
  type TraceChannels,
  type TracedAttempt,
  type TracedCall,
} from '../observe/traces.js';
import { atAttempt, atCall, finish } from './attributes.js';

/** A span that has not ended, and a context in which it is the current span. */
interface OpenSpan {
  readonly span: Span;
  readonly context: Context;
}

/**
 * Marks a message of the tracing channels for which a span was created, so that no second tracer, perhaps of another copy of evenkeel,
 * creates another.
 */
const claimed: unique symbol = Symbol.for('evenkeel.opentelemetry.taken') as never;

/**
 * The channel on which undici publishes new requests. If undici's instrumentation subscribes to it, that adds the headers of its own span.
 */
const undiciRequests = channel('undici:request:create');

type Listener = (message: unknown) => void;

/** Creates spans for all calls and attempts of this process, from the messages of the tracing channels. */
export class CallSpans {
  readonly #tracer: Tracer;
  readonly #attemptKind: SpanKind;
  readonly #propagates: boolean;
  readonly #calls = new Map<TracedCall, OpenSpan>();
  readonly #attempts = new Map<TracedAttempt, OpenSpan>();
  readonly #listeners: readonly (readonly [TraceChannels, keyof TraceChannels, Listener])[];

  constructor(tracer: Tracer, attemptKind: 'internal' | 'client', propagates: boolean) {
    this.#tracer = tracer;
    this.#attemptKind = attemptKind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL;
    this.#propagates = propagates;
    this.#listeners = [
      [callChannels, 'start', (call) => this.#callBegan(call as TracedCall)],
      [callChannels, 'asyncEnd', (call) => this.#callEnded(call as TracedCall)],
      [attemptChannels, 'start', (attempt) => this.#attemptBegan(attempt as TracedAttempt)],
      [attemptChannels, 'asyncEnd', (attempt) => this.#attemptEnded(attempt as TracedAttempt)],
    ];
    for (const [channels, event, listener] of this.#listeners) channels[event].subscribe(listener);
  }

  get open(): number {
    return this.#calls.size + this.#attempts.size;
  }

  readonly stop = (): void => {
    for (const [channels, event, listener] of this.#listeners) channels[event].unsubscribe(listener);
    for (const { span } of this.#attempts.values()) span.end();
    for (const { span } of this.#calls.values()) span.end();
    this.#attempts.clear();
    this.#calls.clear();
  };

  #callBegan(call: TracedCall): void {
    if (!claim(call)) return;
    const parent = context.active();
    const span = this.#tracer.startSpan(
      `evenkeel ${call.method ?? call.protocol}`,
      { attributes: atCall(call) },
      parent,
    );
    const opened = { span, context: trace.setSpan(parent, span) };
    this.#calls.set(call, opened);
    call.around((run) => context.with(opened.context, run));
  }

  #callEnded(call: TracedCall): void {
    const opened = this.#calls.get(call);
    if (opened === undefined) return;
    this.#calls.delete(call);
    if (opened.span.isRecording()) {
      opened.span.setAttributes({ 'evenkeel.attempts': call.attempts, 'evenkeel.wait.duration': call.waitedMs / 1000 });
      finish(opened.span, call, call.protocol, call.error !== undefined || call.outcome?.kind === 'failure');
    }
    opened.span.end();
  }

  #attemptBegan(attempt: TracedAttempt): void {
    if (!claim(attempt)) return;
    const call = this.#calls.get(attempt.call);
    const parent = call?.context ?? context.active();
    if (call?.span.isRecording() === false) {
      // If a call's span is not recorded, its attempts get no spans, and servers get the call's span as parent.
      this.#tell(attempt, parent);
      return;
    }
    const span = this.#tracer.startSpan(
      'evenkeel attempt',
      { kind: this.#attemptKind, attributes: atAttempt(attempt) },
      parent,
    );
    const opened = { span, context: trace.setSpan(parent, span) };
    this.#attempts.set(attempt, opened);
    this.#tell(attempt, opened.context);
    attempt.around((run) => context.with(opened.context, run));
  }

  #attemptEnded(attempt: TracedAttempt): void {
    const opened = this.#attempts.get(attempt);
    if (opened === undefined) return;
    this.#attempts.delete(attempt);
    const kind = attempt.outcome?.kind;
    finish(opened.span, attempt, attempt.call.protocol, kind === 'failure' || kind === 'not-started');
    opened.span.end();
  }

  /** Tells the server, in headers, which span is its parent, unless another instrumentation's client span will be the parent. */
  #tell({ call, setHeader }: TracedAttempt, own: Context): void {
    if (!this.#propagates || setHeader === undefined) return;
    if (call.protocol === 'http' && undiciRequests.hasSubscribers) return;
    propagation.inject(own, setHeader, { set: (set, name, value) => set(name, value) });
  }
}

/** Marks a message as having a span. Returns false if another tracer marked it before. */
function claim(message: object): boolean {
  const marked = message as { [claimed]?: true };
  if (marked[claimed]) return false;
  marked[claimed] = true;
  return true;
}
