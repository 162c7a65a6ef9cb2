import type {
  Clock,
  Endpoint,
  EndpointSet,
  Outcome,
  Stage,
  StageContext,
  StageFactory,
  Timer,
  Tracker,
} from '../../../index.js';
import { jittered, notify } from '../../kit/index.js';

/** What a server says of itself: why it should get no statements, or undefined if there is no reason. */
export type Objection = string | undefined;

/** A question that is put to every server, and what follows from the answers. */
export interface ServerProbeRules {
  /** Rejects when it cannot be found out: then what was known before still holds. */
  ask(endpoint: Endpoint, signal: AbortSignal): Promise<Objection>;
  /** How often, in ms, ± 20 %. */
  readonly intervalMs: number;
  /** How long an answer may take, in ms. */
  readonly timeoutMs: number;
  /** Whether servers without an objection are asked again and again, or only when they connect. */
  readonly keepsAsking: boolean;
  /** Whether the objection counts though every server has one. */
  readonly isFinal: boolean;
  /** An outcome that is an objection by itself. */
  objection?(outcome: Outcome): Objection;
}

const JITTER_RATIO = 0.2;

/**
 * Lets servers stand by for what they say of themselves: read-only, too far behind. They stay connected and are asked
 * again. Nothing fails for it, so this is no matter of ejection or panic.
 */
export function standing(rules: ServerProbeRules): StageFactory {
  return (context) => new ServerProbe(rules, context);
}

class ServerProbe implements Stage {
  readonly #rules: ServerProbeRules;
  readonly #context: StageContext;
  readonly #members = new Map<string, Member>();
  /** The last trouble that was told of: it may come with every question. */
  #told = '';

  constructor(rules: ServerProbeRules, context: StageContext) {
    this.#rules = rules;
    this.#context = context;
  }

  track(endpoint: Endpoint): Tracker {
    const member: Member = new Member(endpoint, this.#rules, this.#context, {
      closed: () => {
        if (this.#members.get(endpoint.key) === member) this.#members.delete(endpoint.key);
      },
      troubled: (error) => this.#warn(error),
    });
    this.#members.set(endpoint.key, member);
    return member;
  }

  apply(set: EndpointSet): EndpointSet {
    const objects = (key: string): boolean => this.#members.get(key)?.objection !== undefined;
    if (!this.#rules.isFinal) {
      const { entries } = set;
      const isLeft = entries.some(
        ({ endpoint: { key }, weight }) => weight > 0 && !objects(key) && this.#members.get(key)?.isConnected === true,
      );
      if (!isLeft) return set;
    }
    return set.map((entry) => (objects(entry.endpoint.key) ? { ...entry, weight: 0 } : entry));
  }

  close(): void {
    for (const member of this.#members.values()) member.stop();
  }

  #warn(error: Error): void {
    if (error.message === this.#told) return;
    this.#told = error.message;
    notify(this.#context.observer, 'warned', { message: `a server was not asked: ${error.message}`, error });
  }
}

/** One server. */
class Member implements Tracker {
  isConnected = false;
  objection: Objection;
  readonly #endpoint: Endpoint;
  readonly #rules: ServerProbeRules;
  readonly #context: StageContext;
  readonly #owner: { closed(): void; troubled(error: Error): void };
  #timer: Timer | undefined;
  #question: AbortController | undefined;

  constructor(
    endpoint: Endpoint,
    rules: ServerProbeRules,
    context: StageContext,
    owner: { closed(): void; troubled(error: Error): void },
  ) {
    this.#endpoint = endpoint;
    this.#rules = rules;
    this.#context = context;
    this.#owner = owner;
  }

  connected(): void {
    this.isConnected = true;
    this.#context.invalidate();
    void this.#ask();
  }

  disconnected(): void {
    this.isConnected = false;
    this.stop();
    this.#context.invalidate();
  }

  completed(outcome: Outcome): void {
    const objection = this.#rules.objection?.(outcome);
    if (objection === undefined || this.objection !== undefined) return;
    this.#judge(objection);
    this.#schedule();
  }

  closed(): void {
    this.stop();
    this.#owner.closed();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#question?.abort(new Error('the question was called off'));
    this.#question = undefined;
  }

  #schedule(): void {
    const { rng, clock } = this.#context;
    const { intervalMs } = this.#rules;
    this.#timer?.cancel();
    this.#timer = clock.timer(() => void this.#ask(), jittered(rng, intervalMs, JITTER_RATIO));
  }

  async #ask(): Promise<void> {
    this.stop();
    const question = new AbortController();
    this.#question = question;
    try {
      const objection = await limited(this.#context.clock, this.#rules.timeoutMs, question, () =>
        this.#rules.ask(this.#endpoint, question.signal),
      );
      if (this.#question !== question) return;
      this.#judge(objection);
    } catch (error) {
      if (this.#question !== question) return;
      this.#owner.troubled(error as Error);
    }
    this.#question = undefined;
    if (this.#rules.keepsAsking || this.objection !== undefined) this.#schedule();
  }

  #judge(objection: Objection): void {
    const before = this.objection;
    this.objection = objection;
    if ((before === undefined) === (objection === undefined)) return;
    const { observer, invalidate } = this.#context;
    const endpoint = this.#endpoint;
    if (objection !== undefined) {
      notify(observer, 'ejected', { endpoint, reason: objection, durationMs: this.#rules.intervalMs });
    } else notify(observer, 'restored', { endpoint, reason: `no longer: ${before}` });
    invalidate();
  }
}

/** Also holds for a question that ignores its signal. */
async function limited<T>(clock: Clock, timeoutMs: number, limit: AbortController, ask: () => Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = clock.timer(() => {
      const error = new Error(`no answer within ${timeoutMs} ms`);
      reject(error);
      limit.abort(error);
    }, timeoutMs);
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason), { once: true });
  });
  try {
    return await Promise.race([ask(), late]);
  } finally {
    timer?.cancel();
  }
}
