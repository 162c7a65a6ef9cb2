import type {
  Clock,
  Endpoint,
  EndpointEntry,
  Outcome,
  Stage,
  StageContext,
  StageFactory,
  Timer,
  Tracker,
} from '../../../index.js';
import { deadline, jittered, notify } from '../../kit/index.js';

/** Why a server should get no statements, as it reports itself; undefined if there is no reason. */
export type Objection = string | undefined;

/** A question to every server, and what follows from the answers. */
export interface ServerProbeRules {
  /** Asks one server. If it rejects, what was known before still holds. */
  ask(endpoint: Endpoint, signal: AbortSignal): Promise<Objection>;
  /** How often, in ms, ± 20 %. */
  readonly intervalMs: number;
  /** How long an answer may take, in ms. */
  readonly timeoutMs: number;
  /** Whether servers without an objection are asked repeatedly, or only when they connect. */
  readonly keepsAsking: boolean;
  /** Whether an objection counts even if every server has one. */
  readonly isFinal: boolean;
  /** The objection in an outcome, if any. */
  objection?(outcome: Outcome): Objection;
}

const JITTER_RATIO = 0.2;

/**
 * Puts servers on standby for what they report about themselves: read-only, too far behind. They stay connected and are asked again.
 * Nothing fails because of it, so ejection and panic are not concerned.
 */
export function serverProbe(rules: ServerProbeRules): StageFactory {
  return (context): Stage => {
    const servers = new Map<string, ProbedServer>();
    /** The last problem that was reported: it may occur at every question. */
    let told = '';
    const warn = (error: Error): void => {
      if (error.message === told) return;
      told = error.message;
      notify(context.observer, 'warned', { message: `a server was not asked: ${error.message}`, error });
    };
    const objects = ({ key }: Endpoint): boolean => servers.get(key)?.objection !== undefined;
    return {
      track: (endpoint) => {
        const server: ProbedServer = new ProbedServer(endpoint, rules, context, {
          failed: warn,
          closed: () => {
            if (servers.get(endpoint.key) === server) servers.delete(endpoint.key);
          },
        });
        servers.set(endpoint.key, server);
        return server;
      },
      apply: (set) => {
        const isUsable = ({ endpoint, weight }: EndpointEntry): boolean =>
          weight > 0 && !objects(endpoint) && servers.get(endpoint.key)?.isConnected === true;
        if (!rules.isFinal && !set.entries.some(isUsable)) return set;
        return set.map((entry) => (objects(entry.endpoint) ? { ...entry, weight: 0 } : entry));
      },
      close: () => {
        for (const server of servers.values()) server.stop();
      },
    };
  };
}

/** What a server tells its stage. */
interface ProbeEvents {
  /** It could not be asked. */
  failed(error: Error): void;
  closed(): void;
}

/** One server, and what it last reported. */
class ProbedServer implements Tracker {
  isConnected = false;
  objection: Objection;
  readonly #endpoint: Endpoint;
  readonly #rules: ServerProbeRules;
  readonly #context: StageContext;
  readonly #events: ProbeEvents;
  #timer: Timer | undefined;
  #question: AbortController | undefined;

  constructor(endpoint: Endpoint, rules: ServerProbeRules, context: StageContext, events: ProbeEvents) {
    this.#endpoint = endpoint;
    this.#rules = rules;
    this.#context = context;
    this.#events = events;
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
    this.#events.closed();
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
      this.#events.failed(error as Error);
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
      const { intervalMs: durationMs } = this.#rules;
      notify(observer, 'ejected', { endpoint, reason: objection, cause: 'server', durationMs });
    } else notify(observer, 'restored', { endpoint, reason: `no longer: ${before}` });
    invalidate();
  }
}

/** Limits the time for a question, even one that ignores its signal. */
async function limited<T>(clock: Clock, timeoutMs: number, limit: AbortController, ask: () => Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    const expired = (): void => {
      const error = new Error(`no answer within ${timeoutMs} ms`);
      reject(error);
      limit.abort(error);
    };
    timer = deadline(clock, expired, timeoutMs);
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason), { once: true });
  });
  try {
    return await Promise.race([ask(), late]);
  } finally {
    timer?.cancel();
  }
}
