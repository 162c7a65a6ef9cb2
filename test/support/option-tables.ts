import { parseAst } from 'rolldown/parseAst';
import type { NumberBounds } from '../../src/runtime/check.js';
import type { Option } from '../../src/runtime/options.js';
import { textOf } from './docs-page.js';

/** An interface of options whose members are rows of a page. */
export interface OptionGroup {
  /** The file of the interface, in `src/`, without its extension. */
  readonly file: string;
  /** Its name, if that is not the name of the group. */
  readonly interface?: string;
  /** Where the defaults and bounds are said. */
  readonly table: { readonly options: object };
  /** Of the names in the page: `pool.` for `pool.connectTimeoutMs`. */
  readonly prefix?: string;
}

/** An option as its interface documents it. */
interface Documented {
  readonly name: string;
  readonly isOptional: boolean;
  readonly text: string;
  /** What its `@defaultValue` says; undefined if it has none. */
  readonly byDefault: string | undefined;
  /** A page and a heading in it, as `docs/guide/tcp.md#options`. */
  readonly see: string | undefined;
}

const GENERATED = /(<!-- options: ([\w, .]+) -->\n)[\s\S]*?(<!-- end of options -->)/g;

/** A page with the tables between its markers as the source says them. `groups` are by the name of their interface. */
export function withOptionTables(path: string, groups: Readonly<Record<string, OptionGroup>>): string {
  return textOf(path).replace(GENERATED, (_, begin: string, names: string, end: string) => {
    const rows = names.split(', ').flatMap((named) => {
      const [name = '', member] = named.split('.');
      const group = groups[name];
      if (group === undefined) throw new Error(`${path} names ${name}, which has no group`);
      return rowsOf(name, group, path, member);
    });
    // An interface may document an option of the one it extends again: what it says comes first.
    const shown = rows.filter(([option], index) => rows.findIndex(([name]) => name === option) === index);
    return `${begin}\n${tableOf(shown)}\n\n${end}`;
  });
}

/** The defaults that the interface says and the table does not have, as `maxWaiting: 20000, not 10000`. */
export function wrongDefaults(name: string, { file, interface: declared = name, table }: OptionGroup): string[] {
  const options = table.options as Readonly<Record<string, Option<unknown>>>;
  return documentedIn(file, declared).flatMap(({ name: option, byDefault }) => {
    const value = options[option]?.default;
    if (!['number', 'boolean', 'string'].includes(typeof value) || value === '') return [];
    const expected = typeof value === 'string' ? `'${value}'` : String(value);
    const isSaid =
      byDefault === expected ||
      byDefault?.startsWith(`${expected} `) ||
      byDefault?.startsWith(`${expected},`) ||
      byDefault?.startsWith(`${expected}:`);
    return isSaid ? [] : [`${option}: ${expected}, not ${byDefault}`];
  });
}

type Row = readonly [name: string, byDefault: string, range: string, text: string];

/** @param member The only one, if it is not all. */
function rowsOf(
  name: string,
  { file, interface: declared = name, table, prefix = '' }: OptionGroup,
  page: string,
  member: string | undefined,
): Row[] {
  const options = table.options as Readonly<Record<string, Option<unknown> | undefined>>;
  return documentedIn(file, declared)
    .filter((option) => member === undefined || option.name === member)
    .map(({ name: option, isOptional, text, byDefault = '', see }) => {
      // Pages say once that times are in ms.
      const plain = option.endsWith('Ms') ? text.replace(/, in ms(?=[.;:,]|$)|\. In ms$/, '') : text;
      return [
        `\`${prefix}${option}\``,
        isOptional ? defaultInCell(byDefault, page) : 'required',
        rangeOf(options[option]?.bounds),
        see === undefined ? plain : `${plain} (${linkTo(see, page)})`,
      ];
    });
}

function defaultInCell(byDefault: string, page: string): string {
  const [, plain = byDefault, other] = /^(\{\}), see `(\w+)`$/.exec(byDefault) ?? [];
  if (other !== undefined && markersOf(page).includes(other)) return 'see below';
  return /^('[^']*'|\w+\(.*\)|\[.*\]|\{\})$/.test(plain) ? `\`${plain}\`` : plain;
}

/** The interfaces whose options stand on a page, some with one member only: `PlaceOptions.key`. */
export function markersOf(page: string): string[] {
  return [...textOf(page).matchAll(GENERATED)].flatMap(([, , names]) => (names as string).split(', '));
}

function tableOf(rows: readonly Row[]): string {
  const hasRanges = rows.some(([, , range]) => range !== '');
  const lines = [['option', 'default', 'range', 'what it does'] as const, ...rows]
    .map(([name, byDefault, range, text]) => (hasRanges ? [name, byDefault, range, text] : [name, byDefault, text]))
    .map((row) => `| ${row.join(' | ')} |`.replace('|  |', '| |'));
  return [lines[0], hasRanges ? '|---|---|---|---|' : '|---|---|---|', ...lines.slice(1)].join('\n');
}

function rangeOf(bounds: NumberBounds = {}): string {
  const { min, above, max, integer, infinite } = bounds;
  if (min === undefined && above === undefined && max === undefined) return '';
  const lowest = above === undefined ? `≥ ${min}` : `> ${above}`;
  const range = max === undefined ? lowest : above === undefined ? `${min} – ${max}` : `${lowest}, at most ${max}`;
  return `${range}${infinite ? ' or Infinity' : ''}${integer ? ', whole' : ''}`;
}

/** The options of an interface, in the order of the source. */
function documentedIn(file: string, name: string): Documented[] {
  const source = textOf(`src/${file}.ts`);
  const found = parseAst(source, { lang: 'ts' }).body.flatMap((statement) => {
    const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    return declared?.type === 'TSInterfaceDeclaration' && declared.id.name === name ? declared.body.body : [];
  });
  if (found.length === 0) throw new Error(`src/${file}.ts has no interface ${name}`);
  return found.flatMap((member) => {
    if (member.type !== 'TSPropertySignature' || member.key.type !== 'Identifier') return [];
    const comment = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(source.slice(0, member.start))?.[1] ?? '';
    if (comment.includes('@internal')) return [];
    return [{ name: member.key.name, isOptional: member.optional, ...readComment(comment) }];
  });
}

function readComment(comment: string): Pick<Documented, 'text' | 'byDefault' | 'see'> {
  const plain = comment
    .replace(/^\s*\* ?/gm, '')
    .replace(/\s+/g, ' ')
    .trim();
  const [text = '', ...tags] = plain.split(/ ?@(?=defaultValue|see)/);
  const tag = (name: string): string | undefined =>
    tags
      .find((one) => one.startsWith(name))
      ?.slice(name.length)
      .trim();
  return {
    // A cell begins like its heading, in lower case, unless the first word is a name.
    text: inCell(text.replace(/^[A-Z](?=[a-z]* )/, (first) => first.toLowerCase()).replace(/(?<!\.)\.$/, '')),
    byDefault: tag('defaultValue') === undefined ? undefined : inCell(tag('defaultValue') as string),
    see: tag('see'),
  };
}

/** Items of a list become sentences, and no bar ends the cell. */
function inCell(text: string): string {
  return text.replace(/(^| )- (?=`)/g, '$1').replaceAll('|', '\\|');
}

/** A link from a page to a heading of another, named as that is. */
function linkTo(link: string, page: string): string {
  const [path = '', anchor] = link.split('#');
  const headings = [...textOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading as string);
  const heading = anchor === undefined ? headings[0] : headings.find((one) => anchorOf(one) === anchor);
  if (heading === undefined) throw new Error(`${link}: no such heading`);
  const folder = page.slice(0, page.lastIndexOf('/') + 1);
  const inSameFolder = link.startsWith(folder) ? link.slice(folder.length) : `../${link.slice('docs/'.length)}`;
  return `[${heading.replaceAll('`', '')}](${path === page ? `#${anchor}` : inSameFolder})`;
}

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
