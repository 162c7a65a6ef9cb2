import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { until } from '../../../support/until.js';

const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** `SpanKind.SERVER`. */
const SERVER = 1;

/** A span that has ended, in whichever process. */
export interface EndedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parent: string | undefined;
  /** As `SpanKind`. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: { readonly code: number; readonly message?: string };
  /** The instrumentation: `evenkeel`, `undici`, `http`, `grpc`, `mysql2`. */
  readonly scope: string;
  readonly process: string;
}

interface Message {
  readonly span?: Omit<EndedSpan, 'process'>;
  readonly ports?: Readonly<Record<string, number>>;
  readonly did?: number;
  readonly result?: unknown;
  readonly open?: number;
  readonly error?: string;
}

/** A program with OpenTelemetry, in a process of its own. */
class Program {
  readonly name: string;
  readonly ports: Readonly<Record<string, number>>;
  readonly #child: ChildProcess;
  #commands = 0;

  private constructor(name: string, child: ChildProcess, ports: Readonly<Record<string, number>>) {
    this.name = name;
    this.#child = child;
    this.ports = ports;
  }

  static async start(
    program: string,
    name: string,
    spans: EndedSpan[],
    env: Record<string, string> = {},
  ): Promise<Program> {
    const child = fork(file(program), [name], {
      execArgv: ['--import', pathToFileURL(file('instrumented.mjs')).href],
      env: { ...process.env, ...env },
    });
    child.on('message', ({ span }: Message) => {
      if (span !== undefined) spans.push({ ...span, process: name });
    });
    const ports = await new Promise<Readonly<Record<string, number>>>((resolve, reject) => {
      child.on('message', (message: Message) => message.ports !== undefined && resolve(message.ports));
      child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it was ready`)));
    });
    return new Program(name, child, ports);
  }

  command(message: object): Promise<Message> {
    const id = ++this.#commands;
    return new Promise((resolve, reject) => {
      const told = (answer: Message): void => {
        if (answer.did !== id) return;
        this.#child.off('message', told);
        if (answer.error === undefined) resolve(answer);
        else reject(new Error(answer.error));
      };
      this.#child.on('message', told);
      this.#child.send({ id, ...message });
    });
  }

  async stop(): Promise<void> {
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.kill('SIGKILL');
      await gone;
    }
  }
}

/** Pods and a client, all with OpenTelemetry, and their spans. */
export class TracedWorld implements AsyncDisposable {
  readonly pods: readonly Program[];
  readonly spans: EndedSpan[];
  readonly #client: Program;

  readonly #owned: readonly Program[];

  private constructor(pods: readonly Program[], client: Program, spans: EndedSpan[], owned: readonly Program[]) {
    this.pods = pods;
    this.#client = client;
    this.spans = spans;
    this.#owned = owned;
  }

  static async start(count: number): Promise<TracedWorld> {
    const spans: EndedSpan[] = [];
    const [client, ...pods] = await Promise.all([
      Program.start('client.mjs', 'client', spans),
      ...Array.from({ length: count }, (_, index) => Program.start('pod.mjs', `orders-${index}`, spans)),
    ]);
    return new TracedWorld(pods, client, spans, [client, ...pods]);
  }

  /**
   * The same pods, and a client of another kind.
   *
   * @param env Of the client: `TRACES` are options of `instrumentTraces`, or `off`; `INSTRUMENTATIONS` the official ones to use.
   */
  async withClient(env: Record<string, string>): Promise<TracedWorld> {
    const client = await Program.start('client.mjs', 'client', this.spans, env);
    return new TracedWorld(this.pods, client, this.spans, [client]);
  }

  endpoints(protocol: 'http' | 'grpc'): object[] {
    return this.pods.map(({ name, ports }, index) => ({
      address: '127.0.0.1',
      port: ports[protocol],
      name,
      zone: `zone-${index}`,
    }));
  }

  async behave(index: number, behave: object): Promise<void> {
    await this.pods[index]?.command({ behave });
  }

  /**
   * Runs a scenario of `client.mjs`; resolves when all its spans have ended, and those of `servers` answers. Returns its result, and the
   * spans.
   */
  async run(
    scenario: string,
    pods: readonly object[],
    { servers = 0, ...more }: { readonly servers?: number; readonly [input: string]: unknown } = {},
  ): Promise<{ result: never; spans: Tree }> {
    this.spans.length = 0;
    const { result, open } = await this.#client.command({ scenario, pods, ...more });
    if (open !== 0) throw new Error(`${open} spans never ended`);
    // Spans of servers end in their own time.
    await until(
      'the spans of the servers have come',
      () => this.spans.filter(({ kind }) => kind === SERVER).length >= servers,
    );
    return { result: result as never, spans: new Tree([...this.spans]) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#owned.map((program) => program.stop()));
  }
}

/** Spans by their parents. */
export class Tree {
  readonly all: readonly EndedSpan[];

  constructor(all: readonly EndedSpan[]) {
    this.all = all;
  }

  of(scope: string): EndedSpan[] {
    return this.all.filter((span) => span.scope === scope);
  }

  named(name: string): EndedSpan[] {
    return this.all.filter((span) => span.name === name);
  }

  one(name: string): EndedSpan {
    const [span, ...more] = this.named(name);
    if (span === undefined || more.length > 0)
      throw new Error(`${more.length + (span ? 1 : 0)} spans ${name}: ${this}`);
    return span;
  }

  children(of: EndedSpan): EndedSpan[] {
    return this.all.filter((span) => span.parent === of.spanId && span.traceId === of.traceId);
  }

  parent(of: EndedSpan): EndedSpan | undefined {
    return this.all.find((span) => span.spanId === of.parent && span.traceId === of.traceId);
  }

  toString(): string {
    const lines: string[] = [];
    const print = (span: EndedSpan, depth: number): void => {
      const { attributes, status } = span;
      const own = Object.entries(attributes).filter(([name]) =>
        /^(evenkeel|error|k8s|server|network|http.resp|rpc.resp)/.test(name),
      );
      lines.push(
        `${'  '.repeat(depth)}${span.process} ${span.scope}: ${span.name} kind=${span.kind} ${status.code === 2 ? `ERROR ${status.message ?? ''} ` : ''}${own.map(([k, v]) => `${k}=${v}`).join(' ')}`,
      );
      for (const child of this.children(span)) print(child, depth + 1);
    };
    for (const span of this.all) if (this.parent(span) === undefined) print(span, 0);
    return lines.join('\n');
  }
}
