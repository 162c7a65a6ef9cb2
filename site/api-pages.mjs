/** The API reference as Markdown: an overview, and one page per entry point. */

/**
 * @typedef {import('./api.mjs').EntryPoint} EntryPoint
 * @typedef {import('./api.mjs').Name} Name
 * @typedef {import('./api.mjs').Member} Member
 * @typedef {import('./api.mjs').Doc} Doc
 */

const kinds = /** @type {const} */ ([
  ['function', 'Functions'],
  ['class', 'Classes'],
  ['constant', 'Constants'],
  ['type', 'Types'],
]);

/**
 * Pages by their path, such as `api/undici.md`.
 * @param {readonly EntryPoint[]} entries @param {ReadonlyMap<string, Record<string, unknown>>} values what each entry point exports, by its path
 */
export function apiPages(entries, values) {
  const homes = new Map(
    entries.flatMap(({ page, names }) =>
      names.map(({ name }) => /** @type {const} */ ([name, `./${page}.html#${name}`])),
    ),
  );
  const pages = new Map([['api/index.md', overview(entries)]]);
  for (const entry of entries) {
    // A name of the page itself goes before one of another entry point: two of them have a `DnsService`.
    const own = new Map([...homes, ...entry.names.map(({ name }) => /** @type {const} */ ([name, `#${name}`]))]);
    pages.set(`api/${entry.page}.md`, new ApiPage(entry, own, values.get(entry.path) ?? {}).text());
  }
  return pages;
}

/** @param {readonly EntryPoint[]} entries */
function overview(entries) {
  const rows = entries.map(({ path, page, names }) => {
    const calls = names
      .filter(({ kind }) => kind === 'function')
      .map(({ name }) => `[\`${name}\`](./${page}.md#${name})`);
    const shown = calls.length > 6 ? [...calls.slice(0, 6), `and ${calls.length - 6} more`] : calls;
    return `| [\`${path}\`](./${page}.md) | ${names.length} | ${shown.join(', ')} |`;
  });
  return [
    '# API by entry point',
    'Every name the package exports, with its types, defaults and errors, read from the types that are published. Times are in milliseconds, shares from 0 to 1.',
    ['| import from | names | functions |', '|---|---|---|', ...rows].join('\n'),
    '',
  ].join('\n\n');
}

class ApiPage {
  #entry;
  #homes;
  #values;

  /** @param {EntryPoint} entry @param {ReadonlyMap<string, string>} homes where each name stands @param {Record<string, unknown>} values */
  constructor(entry, homes, values) {
    this.#entry = entry;
    this.#homes = homes;
    this.#values = values;
  }

  text() {
    const { path, doc, names, also } = this.#entry;
    const parts = [`# ${path}`];
    if (doc) parts.push(prose(doc.text));
    if (names.length > 0) parts.push(`${fence(importOf(path, names))}`);
    for (const [kind, heading] of kinds) {
      const ofKind = names.filter((name) => name.kind === kind);
      if (ofKind.length > 0) parts.push(`## ${heading}`, ...ofKind.map((name) => this.#name(name)));
    }
    if (also.length > 0) {
      const links = also.map(
        ({ name, from }) => `[\`${name}\`](${this.#homes.get(name)?.replace('.html', '.md')}) of \`${from}\``,
      );
      parts.push('## Also exported here', links.join(', '));
    }
    return `${parts.join('\n\n')}\n`;
  }

  /** @param {Name} name */
  #name({ name, declarations, members, bases, refers, kind }) {
    const parts = [`### ${name} {#${name}}`];
    const described = declarations.filter(({ doc }) => doc);
    // The members follow one by one, so their code need not stand there twice.
    const code = declarations.map(({ code }) =>
      members.length > 0 ? code.slice(0, code.indexOf('{')).trimEnd() : withoutComments(code),
    );
    parts.push(fence(code.join('\n')));
    for (const { doc } of described) parts.push(this.#doc(doc));
    if (kind === 'constant' && isPlain(this.#values[name]))
      parts.push(`Value: \`${JSON.stringify(this.#values[name])}\``);
    const linked = bases.map((base) => this.#code(base));
    if (linked.length > 0) parts.push(`Has everything of ${linked.join(', ')}.`);
    if (members.length > 0) parts.push(this.#members(members, this.#values[name]));
    const others = [...refers].filter((other) => other !== name && this.#homes.has(other));
    if (members.length === 0 && others.length > 0)
      parts.push(`See ${others.map((other) => this.#code(other)).join(', ')}.`);
    return parts.join('\n\n');
  }

  /** @param {readonly Member[]} members @param {unknown} values of a constant with these members @returns {string} */
  #members(members, values) {
    return members
      .map((member) => {
        const { name, optional, doc, members: inner } = member;
        const value = typeof values === 'object' && values !== null ? Reflect.get(values, name) : undefined;
        const type = inner.length > 0 ? '{ … }' : this.#code(shownType(member), false);
        const between = type.startsWith('(') || type.startsWith('&lt;') || type === '' ? '' : ': ';
        const title = `<code v-pre class="member"><b>${escapeHtml(name)}</b>${optional ? '?' : ''}${between}${type}</code>`;
        const parts = [title];
        if (doc) parts.push(this.#doc(doc));
        if (isPlain(value)) parts.push(`Value: \`${JSON.stringify(value) ?? String(value)}\``);
        if (inner.length > 0) parts.push(this.#members(inner, value));
        return `- ${parts.join('\n\n').replaceAll('\n', '\n  ').replaceAll(/^ +$/gm, '')}`;
      })
      .join('\n');
  }

  /** @param {Doc | undefined} doc */
  #doc(doc) {
    if (doc === undefined) return '';
    const of = (/** @type {string} */ wanted) => doc.tags.filter(({ tag }) => tag === wanted).map(({ text }) => text);
    const parts = [prose(doc.text)];
    const parameters = of('param').map((text) => {
      const [, name, rest = ''] = /^(\S+)\s*([\s\S]*)$/.exec(text) ?? [];
      return `- \`${name}\`: ${prose(rest).replaceAll('\n', '\n  ')}`;
    });
    if (parameters.length > 0) parts.push(parameters.join('\n'));
    for (const text of of('returns')) parts.push(`Returns ${lowerFirst(prose(text))}`);
    for (const text of of('defaultValue')) parts.push(`Default: ${defaultOf(text)}`);
    for (const text of of('throws')) parts.push(`Throws ${prose(text)}`);
    for (const text of of('deprecated')) parts.push(`**Deprecated.** ${prose(text)}`);
    for (const text of of('example')) parts.push(text.includes('```') ? text : fence(linesOf(text)));
    return parts.filter((part) => part !== '').join('\n\n');
  }

  /** Code whose known names are links. @param {string} code */
  #code(code, wrapped = true) {
    const linked = code
      .split(/([A-Za-z_$][\w$]*)/)
      .map((part) => {
        const home = this.#homes.get(part);
        return home === undefined || code === part.toLowerCase() ? escapeHtml(part) : `<a href="${home}">${part}</a>`;
      })
      .join('');
    return wrapped ? `<code v-pre>${linked}</code>` : linked;
  }
}

/** The first lines of a program that uses the entry point. @param {string} path @param {readonly Name[]} names */
function importOf(path, names) {
  const called = ['function', 'class', 'constant'].flatMap((kind) => names.filter((name) => name.kind === kind));
  const call = called.find(({ name }) => name.startsWith('create')) ?? called[0];
  return call === undefined
    ? `import type { ${names[0]?.name} } from '${path}';`
    : `import { ${call.name} } from '${path}';`;
}

/** A type on one line, without what `?` says already. @param {Member} member */
function shownType({ type, optional }) {
  const line = withoutComments(type).replace(/\s+/g, ' ').trim();
  return optional ? line.replace(/^\((.*)\) \| undefined$/, '$1').replace(/ \| undefined$/, '') : line;
}

/** @param {string} code */
function withoutComments(code) {
  return code.replace(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, '');
}

/** Text of a comment as Markdown in which nothing is a tag; pages it names become links. @param {string} text */
function prose(text) {
  return text
    .split(/(`[^`]+`)/)
    .map((part) =>
      part.startsWith('`') ? pageLink(part) : escapeHtml(part).replaceAll(/\bdocs\/[\w/-]+\.md\b/g, pageLink),
    )
    .join('')
    .replaceAll(/\bEVENKEEL_[A-Z_]+\b/g, (code) => `[${code}](../reference/errors.md)`);
}

/** @param {string} mention such as `` `docs/reference/options.md` `` */
function pageLink(mention) {
  const [, page] = /^`?docs\/([\w/-]+\.md)`?$/.exec(mention) ?? [];
  return page === undefined ? mention : `[${page}](../${page})`;
}

/** A default: code if it looks like code. @param {string} text */
function defaultOf(text) {
  const plain = text.replaceAll(/\s+/g, ' ').replace(/\.$/, '');
  const [, value, rest = ''] =
    /^("[^"]*"|'[^']*'|[\w.]+\([^)]*\)|\[[^\]]*\]|\{\}|-?\d[\d.]*|true|false|Infinity|undefined)(?=$|[\s,;(])(.*)$/.exec(
      plain,
    ) ?? [];
  return value === undefined ? prose(plain) : `\`${value}\`${prose(rest)}`;
}

/** An example that a comment has in running lines, a statement per line. @param {string} text */
function linesOf(text) {
  let depth = 0;
  let lines = '';
  for (const char of text.replace(/\s*\n\s*/g, ' ')) {
    if ('({['.includes(char)) depth += 1;
    if (')}]'.includes(char)) depth -= 1;
    lines += char === ' ' && depth === 0 && lines.endsWith(';') ? '\n' : char;
  }
  return lines;
}

/** @param {string} code */
function fence(code) {
  return `\`\`\`ts\n${code}\n\`\`\``;
}

/** @param {string} text */
function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('{{', '&#123;&#123;');
}

/** @param {string} text */
function lowerFirst(text) {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}

/** Whether a value can be shown in a line. @param {unknown} value */
function isPlain(value) {
  if (Array.isArray(value)) return value.length <= 30 && value.every(isPlain);
  return ['number', 'string', 'boolean'].includes(typeof value);
}
