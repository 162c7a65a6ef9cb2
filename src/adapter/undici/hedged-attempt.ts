import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, errors, type Pool } from 'undici';
import type { Outcome } from '../../index.js';
import { outcomeOfAnswer } from '../http/answer.js';
import { type AttemptTally, loadReportHeader, type SharedTimers } from '../kit/index.js';
import { Call } from './call.js';
import type { CallOwner } from './call-owner.js';
import { type HandlerV2, withRawHeaders } from './handler.js';

/** What the attempts of one call have in common. */
export interface HedgedAttemptOwner extends AttemptTally<Pool> {
  readonly owner: CallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly timers: SharedTimers;
  readonly handler: HandlerV2;
  /** The controller the caller has. */
  readonly controller: Dispatcher.DispatchController;
  readonly limitMs: number | undefined;
  /** Whether no other attempt is under way. */
  isAlone(attempt: HedgedAttempt): boolean;
  /** The head of a final answer came. True: the caller gets it. False: nobody does. */
  takes(attempt: HedgedAttempt, answer: Answer): boolean;
  /** The caller's answer is complete. */
  ended(attempt: HedgedAttempt): void;
  /** The attempt failed for good. */
  failed(attempt: HedgedAttempt, error: Error): void;
}

/** The head of an answer, and what it says of its pod. */
export interface Answer {
  readonly status: number;
  readonly header: (name: string) => unknown;
  readonly verdict: Outcome;
}

/** So much of an answer nobody wants is read, so that its connection can be used again; in bytes, and for so long, in ms. */
const DISCARDED_BYTES = 65_536;
const DISCARDED_MS = 1_000;

/**
 * One line of attempts of a call that may have several answers: it is repeated where nothing was answered, as any call is.
 * Its answer goes to the caller, or nowhere.
 */
export class HedgedAttempt extends Call {
  readonly isHedge: boolean;
  readonly #of: HedgedAttemptOwner;
  /** Bytes of the answer that were thrown away; undefined while it is the caller's, or none. */
  #discarded: number | undefined;
  #discarding: { cancel(): void } | undefined;

  constructor(of: HedgedAttemptOwner, isHedge: boolean) {
    super(of.owner, of.options, of.key, { tally: of, isHedge });
    this.#of = of;
    this.isHedge = isHedge;
  }

  protected override announce(): void {}

  protected override deliver(error: Error): void {
    this.#of.failed(this, error);
  }

  protected override get limitMs(): number | undefined {
    return this.#of.limitMs;
  }

  protected override mayRepeat(sent: boolean): boolean {
    return this.#of.isAlone(this) && super.mayRepeat(sent);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.begunBy(controller);
  }

  onResponseStarted(): void {
    this.responded();
  }

  onResponseStart(
    undicis: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    this.responded();
    withRawHeaders(undicis, headers);
    const { handler, controller } = this.#of;
    if (status >= 200) {
      const header = (name: string): unknown => headers[name];
      const verdict = outcomeOfAnswer(status, header, headers[loadReportHeader]);
      this.judged(verdict);
      if (!this.#of.takes(this, { status, header, verdict })) {
        this.#discard(Number(headers['content-length']));
        return;
      }
      handler.onResponseStarted?.();
    }
    try {
      handler.onResponseStart?.(controller, status, headers, statusText);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#discarded !== undefined) {
      this.#discarded += chunk.length;
      if (this.#discarded > DISCARDED_BYTES) this.#cut();
      return;
    }
    try {
      this.#of.handler.onResponseData?.(this.#of.controller, chunk);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    const discarded = this.#discarded !== undefined;
    this.#discarding?.cancel();
    this.completed(discarded);
    if (discarded) return;
    this.#of.ended(this);
    this.#of.handler.onResponseEnd?.(this.#of.controller, trailers);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#discarded === undefined) {
      this.attemptFailed(error);
      return;
    }
    // What became of the rest says nothing more of the pod than its head did.
    this.#discarding?.cancel();
    this.completed(true);
  }

  onBodySent(chunk: unknown): void {
    this.#of.handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#of.handler.onRequestSent?.();
  }

  /** A short rest is read, which keeps the connection; a long one, or a slow one, is cut. */
  #discard(length: number): void {
    this.#discarded = 0;
    if (length > DISCARDED_BYTES) {
      this.#cut();
      return;
    }
    this.#discarding = this.#of.timers.start(DISCARDED_MS, { timedOut: () => this.#cut() });
  }

  #cut(): void {
    this.answering?.abort(new errors.RequestAbortedError('the answer was given up for that of another pod'));
  }
}
