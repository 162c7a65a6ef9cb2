/**
 * Whether matching a regular expression may take more than linear time, told from its structure. A backtracking engine takes that long
 * if there are many ways to match one text, and no way ends in a match: two loops that follow one another and share a text (quadratic
 * or worse), or one loop with two ways through one text (exponential). An expression that may begin anywhere begins with a loop, too.
 *
 * It is the test for ambiguity of automata, on the positions of the expression (Glushkov). Sources: Weber and Seidl, On the degree of
 * ambiguity of finite automata, TCS 88(2), 1991; Weideman et al., Analyzing matching time behavior of backtracking regular expression
 * matchers by using ambiguity of NFA, CIAA 2016.
 *
 * It may object to an expression that is linear, because it takes every assertion for one that may fail.
 */
export function backtracking(source: string, flags: string): 'linear' | 'polynomial' | 'exponential' {
  const automaton = new Automaton(source, flags);
  if (automaton.isExponential) return 'exponential';
  return automaton.isPolynomial ? 'polynomial' : 'linear';
}

/** Part of an expression. `matches`: the characters, as indexes of `ALPHABET`. */
type Node =
  | { readonly kind: 'one'; readonly matches: readonly boolean[] }
  | { readonly kind: 'row' | 'either'; readonly parts: readonly Node[] }
  | { readonly kind: 'loop'; readonly part: Node; readonly isOptional: boolean }
  /** Matches nothing, and may fail. `looks`: what it reads ahead. */
  | { readonly kind: 'assertion'; readonly isStart: boolean; readonly looks?: Node };

/** Characters for all: ASCII, and some beyond. */
const ALPHABET = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  'é',
  '\u2028',
  '\ufeff',
  '文',
];
const NOTHING: Node = { kind: 'row', parts: [] };
/** Counted repetitions are written out up to here: the rest adds nothing to what is looked for. */
const MAX_COPIES = 3;

class Parser {
  readonly #source: string;
  readonly #flags: string;
  #at = 0;

  constructor(source: string, flags: string) {
    this.#source = source;
    this.#flags = flags.replace(/[gyd]/g, '');
  }

  parse(): Node {
    const node = this.#either();
    if (this.#at < this.#source.length) throw new Error(`not understood: ${this.#source.slice(this.#at)}`);
    return node;
  }

  #take(pattern: RegExp): string | undefined {
    const sticky = new RegExp(pattern.source, 'y');
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#source)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #either(): Node {
    const parts = [this.#row()];
    while (this.#take(/\|/) !== undefined) parts.push(this.#row());
    return parts.length === 1 ? (parts[0] as Node) : { kind: 'either', parts };
  }

  #row(): Node {
    const parts: Node[] = [];
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source[this.#at] as string))
      parts.push(this.#repeated());
    return { kind: 'row', parts };
  }

  #repeated(): Node {
    const part = this.#single();
    const count = this.#take(/[*+?]\??|\{\d+(?:,\d*)?\}\??/);
    if (count === undefined) return part;
    const [min, max] = boundsOf(count);
    if (max === Number.POSITIVE_INFINITY) {
      const once = Array<Node>(Math.min(Math.max(min - 1, 0), MAX_COPIES)).fill(part);
      return { kind: 'row', parts: [...once, { kind: 'loop', part, isOptional: min === 0 }] };
    }
    const optional: Node = { kind: 'either', parts: [part, NOTHING] };
    const must = Math.min(min, MAX_COPIES);
    const may = Math.min(max - min, MAX_COPIES);
    return { kind: 'row', parts: [...Array<Node>(must).fill(part), ...Array<Node>(may).fill(optional)] };
  }

  #single(): Node {
    const look = this.#take(/\(\?<?[=!]/);
    if (look !== undefined) return { kind: 'assertion', isStart: false, looks: this.#group() };
    if (this.#take(/\((?:\?:|\?<\w+>)?/) !== undefined) return this.#group();
    const assertion = this.#take(/\^|\$|\\[bB]/);
    if (assertion !== undefined) {
      return { kind: 'assertion', isStart: assertion === '^' && !this.#flags.includes('m') };
    }
    // What a back reference matches has a length of its own, which nothing here depends on.
    if (this.#take(/\\[1-9]|\\k<\w+>/) !== undefined) return { kind: 'assertion', isStart: false };
    const atom = this.#take(
      /\[(?:\\.|[^\]\\])*\]|\\(?:u\{[\da-f]+\}|u[\da-f]{4}|x[\da-f]{2}|[pP]\{[^}]*\}|c[A-Z]|.)|[^)]/i,
    ) as string;
    const one = new RegExp(`^(?:${atom})$`, this.#flags);
    return { kind: 'one', matches: ALPHABET.map((character) => one.test(character)) };
  }

  #group(): Node {
    const node = this.#either();
    if (this.#take(/\)/) === undefined) throw new Error(`no ) in ${this.#source}`);
    return node;
  }
}

function boundsOf(count: string): [min: number, max: number] {
  if (count.startsWith('*')) return [0, Number.POSITIVE_INFINITY];
  if (count.startsWith('+')) return [1, Number.POSITIVE_INFINITY];
  if (count.startsWith('?')) return [0, 1];
  const [, min, comma, max] = /(\d+)(,?)(\d*)/.exec(count) as unknown as [string, string, string, string];
  if (comma === '') return [Number(min), Number(min)];
  return [Number(min), max === '' ? Number.POSITIVE_INFINITY : Number(max)];
}

/** The positions that a part may begin and end with. */
interface Ends {
  readonly first: readonly number[];
  readonly last: readonly number[];
  readonly isNullable: boolean;
}

class Automaton {
  readonly #matches: (readonly boolean[])[] = [];
  /** For each position, those that may follow. One that follows in two ways is there twice. */
  readonly #next: number[][] = [];
  /** Whatever gets here has matched: nothing is tried again. */
  readonly #done = new Set<number>();
  readonly #reach: ReadonlySet<number>[];

  constructor(source: string, flags: string) {
    const node = new Parser(source, flags).parse();
    const anything = this.#position(ALPHABET.map(() => true));
    const { first, last } = this.#add(node);
    for (const end of last) if (!this.#failing.has(end)) this.#done.add(end);
    if (!flags.includes('y') && !startsAtStart(node)) this.#follow([anything], [anything, ...first]);
    this.#reach = this.#next.map((_, from) => this.#reachable(from));
  }

  /** Positions with an assertion after them. */
  readonly #failing = new Set<number>();

  get isExponential(): boolean {
    return this.#loops().some((at) => this.#returnsInTwoWays(at));
  }

  get isPolynomial(): boolean {
    const loops = this.#loops();
    return loops.some((from) => loops.some((to) => from !== to && this.#reaches(from, to) && this.#share(from, to)));
  }

  #position(matches: readonly boolean[]): number {
    this.#next.push([]);
    return this.#matches.push(matches) - 1;
  }

  #follow(ends: readonly number[], starts: readonly number[]): void {
    for (const end of ends) this.#next[end]?.push(...starts);
  }

  #add(node: Node): Ends {
    if (node.kind === 'one') {
      const at = this.#position(node.matches);
      return { first: [at], last: [at], isNullable: false };
    }
    if (node.kind === 'assertion') {
      if (node.looks === undefined) return { first: [], last: [], isNullable: true };
      // What it looks at is read, and then leads nowhere.
      const { first, last } = this.#add(node.looks);
      for (const end of last) this.#failing.add(end);
      return { first, last: [], isNullable: true };
    }
    if (node.kind === 'loop') {
      const { first, last, isNullable } = this.#add(node.part);
      this.#follow(last, first);
      return { first, last, isNullable: isNullable || node.isOptional };
    }
    const parts = node.parts.map((part) => [part, this.#add(part)] as const);
    if (node.kind === 'either') {
      return {
        first: parts.flatMap(([, { first }]) => first),
        last: parts.flatMap(([, { last }]) => last),
        isNullable: parts.some(([, { isNullable }]) => isNullable),
      };
    }
    let ends: Ends = { first: [], last: [], isNullable: true };
    for (const [part, { first, last, isNullable }] of parts) {
      this.#follow(ends.last, first);
      if (mayFail(part)) for (const end of ends.last) this.#failing.add(end);
      ends = {
        first: ends.isNullable ? [...ends.first, ...first] : ends.first,
        last: isNullable ? [...ends.last, ...last] : last,
        isNullable: ends.isNullable && isNullable,
      };
    }
    return ends;
  }

  /** The positions that come after `from` on one character or more, without those where all is over. */
  #reachable(from: number): ReadonlySet<number> {
    const seen = new Set<number>();
    const open = [from];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      for (const next of this.#next[at] as number[]) {
        if (seen.has(next) || this.#done.has(next)) continue;
        seen.add(next);
        open.push(next);
      }
    }
    return seen;
  }

  #reaches(from: number, to: number): boolean {
    return this.#reach[from]?.has(to) === true;
  }

  #loops(): number[] {
    return [...this.#next.keys()].filter((at) => this.#reaches(at, at));
  }

  /** Whether some text leads from a position back to it in two ways. */
  #returnsInTwoWays(start: number): boolean {
    const isHere = (at: number): boolean => this.#reaches(start, at) && this.#reaches(at, start);
    const seen = new Set<string>();
    const open: [number, number, boolean][] = [[start, start, false]];
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      const [a, b, differ] = state;
      for (const [i, x] of (this.#next[a] as number[]).entries()) {
        for (const [j, y] of (this.#next[b] as number[]).entries()) {
          if (!isHere(x) || !isHere(y) || !this.#common(x, y)) continue;
          const nowDiffer = differ || x !== y || (a === b && i !== j);
          if (nowDiffer && x === start && y === start) return true;
          const key = `${x} ${y} ${nowDiffer}`;
          if (seen.has(key)) continue;
          seen.add(key);
          open.push([x, y, nowDiffer]);
        }
      }
    }
    return false;
  }

  /** Whether one text leads from a position to itself, from it to another, and from that one to itself. */
  #share(from: number, to: number): boolean {
    const seen = new Set<string>();
    const open: [number, number, number][] = [[from, from, to]];
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      for (const a of this.#next[state[0]] as number[]) {
        if (!this.#reaches(a, from) || this.#done.has(a)) continue;
        for (const b of this.#next[state[1]] as number[]) {
          if ((b !== to && !this.#reaches(b, to)) || this.#done.has(b)) continue;
          for (const c of this.#next[state[2]] as number[]) {
            if (!this.#reaches(c, to) || this.#done.has(c) || !this.#common(a, b, c)) continue;
            if (a === from && b === to && c === to) return true;
            const key = `${a} ${b} ${c}`;
            if (seen.has(key)) continue;
            seen.add(key);
            open.push([a, b, c]);
          }
        }
      }
    }
    return false;
  }

  #common(...positions: readonly number[]): boolean {
    return ALPHABET.some((_, index) => positions.every((at) => this.#matches[at]?.[index]));
  }
}

/** Whether every way through it begins at the start of the text. */
function startsAtStart(node: Node): boolean {
  if (node.kind === 'assertion') return node.isStart;
  if (node.kind === 'either') return node.parts.every(startsAtStart);
  return node.kind === 'row' && node.parts[0] !== undefined && startsAtStart(node.parts[0]);
}

/** Whether there is no way through it that cannot fail. */
function mayFail(node: Node): boolean {
  if (node.kind === 'assertion' || node.kind === 'one') return true;
  if (node.kind === 'loop') return !node.isOptional && mayFail(node.part);
  return node.kind === 'either' ? node.parts.every(mayFail) : node.parts.some(mayFail);
}
