/**
 * The public interface of the package, read from the types the build has written: every entry point of `exports`, its names, their
 * members, and what the comments say about them. TypeDoc would need a second TypeScript beside the one that compiles, takes twenty times
 * as long, and says neither the values of constants nor what a default shares with its option.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

/**
 * @typedef {{ text: string, tags: readonly { tag: string, text: string }[] }} Doc text in Markdown; tags such as `defaultValue`
 * @typedef {{ name: string, type: string, optional: boolean, doc: Doc | undefined, start: number, members: readonly Member[] }} Member
 * @typedef {{ name: string, kind: 'function' | 'class' | 'type' | 'constant', file: string, declarations: readonly { code: string, doc: Doc | undefined }[],
 *   members: readonly Member[], bases: readonly string[], refers: ReadonlySet<string> }} Name
 * @typedef {{ path: string, page: string, doc: Doc | undefined, names: readonly Name[], also: readonly { name: string, from: string }[] }} EntryPoint
 */

/** Every entry point, in the order of package.json. A name that several export stands at the first of them. @param {string} root @returns {EntryPoint[]} */
export function readApi(root) {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const modules = new Map();
  /** @param {string} file @returns {TypesModule} */
  const moduleOf = (file) => {
    if (!modules.has(file)) modules.set(file, new TypesModule(file, moduleOf));
    return modules.get(file);
  };
  const homes = new Map();
  const entries = [];
  for (const [path, target] of Object.entries(manifest.exports)) {
    if (typeof target === 'string') continue;
    const module = moduleOf(join(root, target.types));
    const names = [];
    const also = [];
    for (const exported of module.exportedNames()) {
      const found = module.find(exported);
      if (found === undefined) throw new Error(`${target.types} exports ${exported}, which no file declares`);
      const key = `${found.module.file}#${found.local}`;
      const from = homes.get(key);
      if (from === undefined) {
        names.push(found.module.describe(found.local, exported));
        homes.set(key, `evenkeel${path.slice(1)}`);
      } else also.push({ name: exported, from });
    }
    entries.push({
      path: `evenkeel${path.slice(1)}`,
      page: path === '.' ? 'evenkeel' : path.slice(2).replaceAll('/', '-'),
      doc: module.doc,
      names: names.sort((a, b) => a.name.localeCompare(b.name, 'en')),
      also,
    });
  }
  fillFromBases(entries);
  return entries;
}

/**
 * Gives members without a comment that of the same member in what their type extends or implements, and those of defaults that of the
 * option. @param {readonly EntryPoint[]} entries
 */
function fillFromBases(entries) {
  const names = entries.flatMap((entry) => entry.names);
  const options = names.filter(({ name }) => name.endsWith('Options')).flatMap(({ members }) => members);
  for (const { name, members, bases } of names) {
    const above = bases.flatMap(
      (base) => names.find((other) => other.name === base.replace(/<[\s\S]*$/, ''))?.members ?? [],
    );
    const sources = name.endsWith('Defaults') ? options : above;
    for (const member of members) {
      member.doc ??= sources.find((source) => source.name === member.name && source.doc)?.doc;
    }
  }
}

/** What has no description: names and their members, as `evenkeel/pg PoolOptions.target`. @param {readonly EntryPoint[]} entries */
export function undescribed(entries) {
  const missing = [];
  for (const { path, names } of entries) {
    for (const { name, declarations, members } of names) {
      // One comment may stand for all overloads.
      if (!declarations.some(({ doc }) => isDescription(doc))) missing.push(`${path} ${name}`);
      missing.push(...undescribedMembers(members).map((member) => `${path} ${name}.${member}`));
    }
  }
  return missing;
}

/** Members without a comment. That of a member also speaks for the fields of a type written out in it. @param {readonly Member[]} members */
function undescribedMembers(members) {
  const described = new Set(
    members.filter((member) => speaksForItself(member) || isDescription(member.doc)).map(({ name }) => name),
  );
  return [...new Set(members.map(({ name }) => name))].filter((name) => !described.has(name));
}

/** Members every reader knows: a constructor, a call, how it is disposed of, fields of any name, and the word that tells variants apart. @param {Member} member */
function speaksForItself({ name, type }) {
  return name === 'constructor' || name === '(call)' || name.startsWith('[') || /^'[\w-]+'$/.test(type);
}

/** @param {Doc | undefined} doc */
function isDescription(doc) {
  return doc !== undefined && (doc.text !== '' || doc.tags.some(({ tag }) => tag === 'returns'));
}

class TypesModule {
  #text;
  #comments;
  #moduleOf;
  #declared = new Map();
  #imported = new Map();
  #exported = new Map();
  #stars = [];

  /** @param {string} file @param {(file: string) => TypesModule} moduleOf */
  constructor(file, moduleOf) {
    this.file = file;
    this.#moduleOf = moduleOf;
    this.#text = readFileSync(file, 'utf8');
    this.#comments = [...this.#text.matchAll(/\/\*\*[\s\S]*?\*\//g)].map((match) => ({
      end: match.index + match[0].length,
      text: match[0],
    }));
    const { body } = parseAst(this.#text, { lang: 'dts' }, file);
    for (const statement of body) this.#read(statement);
    const first = body[0];
    /** A comment about the file: one that does not stand right before a declaration. */
    this.doc = first && isReexport(first) ? this.#docBefore(first.start) : undefined;
  }

  exportedNames() {
    const names = [...this.#exported.keys()];
    for (const from of this.#stars) names.push(...(this.#other(from)?.exportedNames() ?? []));
    return [...new Set(names)];
  }

  /** Where an exported name is declared. @param {string} name @returns {{ module: TypesModule, local: string } | undefined} */
  find(name) {
    const exported = this.#exported.get(name);
    if (exported === undefined) {
      for (const from of this.#stars) {
        const found = this.#other(from)?.find(name);
        if (found) return found;
      }
      return undefined;
    }
    if (exported.from !== undefined) return this.#other(exported.from)?.find(exported.name);
    if (this.#declared.has(exported.name)) return { module: this, local: exported.name };
    const imported = this.#imported.get(exported.name);
    return imported && this.#other(imported.from)?.find(imported.name);
  }

  /** @param {string} local @param {string} name @returns {Name} */
  describe(local, name) {
    const statements = this.#declared.get(local);
    const parts = statements.map((statement) => statement.declaration ?? statement);
    const members = parts.flatMap((part) => this.#membersOf(part));
    return {
      name,
      kind: kindOf(parts),
      file: this.file,
      declarations: statements.map((statement) => ({
        code: this.#codeOf(statement),
        doc: this.#docBefore(statement.start),
      })),
      members,
      bases: parts
        .flatMap((part) => [
          ...(part.extends ?? []),
          ...(part.implements ?? []),
          ...(part.superClass ? [{ expression: part.superClass }] : []),
        ])
        .map(({ expression }) => this.#slice(expression)),
      refers: new Set(parts.flatMap((part) => [...identifiersIn(part)])),
    };
  }

  #read(statement) {
    const { type, declaration, specifiers = [], source } = statement;
    if (type === 'ImportDeclaration') {
      for (const { local, imported } of specifiers) {
        this.#imported.set(local.name, { from: source.value, name: imported?.name ?? 'default' });
      }
    } else if (type === 'ExportAllDeclaration') this.#stars.push(source.value);
    else if (type === 'ExportNamedDeclaration' && !declaration) {
      for (const { local, exported } of specifiers) {
        this.#exported.set(exported.name, { name: local.name, from: source?.value });
      }
    } else {
      const declared = declaration ?? statement;
      for (const name of declared.declarations?.map(({ id }) => id.name) ?? [declared.id?.name]) {
        this.#declared.set(name, [...(this.#declared.get(name) ?? []), statement]);
        if (declaration) this.#exported.set(name, { name });
      }
    }
  }

  /** @param {string} from */
  #other(from) {
    if (!from.startsWith('.')) return undefined;
    return this.#moduleOf(join(dirname(this.file), from.replace(/\.js$/, '.d.ts')));
  }

  #membersOf(part) {
    if (part.type === 'TSInterfaceDeclaration') return this.#members(part.body.body);
    if (part.type === 'ClassDeclaration') return this.#members(part.body.body);
    if (part.type === 'TSTypeAliasDeclaration') return this.#membersOfType(part.typeAnnotation);
    if (part.type === 'VariableDeclaration')
      return this.#membersOfType(part.declarations[0].id.typeAnnotation?.typeAnnotation);
    return [];
  }

  /** The properties a type spells out itself. */
  #membersOfType(type) {
    if (type?.type === 'TSTypeLiteral') return this.#members(type.members);
    if (type?.type === 'TSIntersectionType' || type?.type === 'TSUnionType') {
      // The comment of a variant also speaks for its fields.
      return type.types.flatMap((one) => {
        const doc = this.#docBefore(this.#text.slice(0, one.start).replace(/[\s|]+$/, '').length);
        return this.#membersOfType(one).map((member) => ({ ...member, doc: member.doc ?? doc }));
      });
    }
    return [];
  }

  /** @returns {Member[]} */
  #members(nodes) {
    const members = [];
    for (const node of nodes) {
      if (
        node.accessibility === 'private' ||
        node.accessibility === 'protected' ||
        node.key?.type === 'PrivateIdentifier'
      )
        continue;
      const doc = this.#docBefore(node.start);
      const name = this.#nameOf(node);
      const type = node.typeAnnotation?.typeAnnotation ?? node.value?.typeAnnotation?.typeAnnotation;
      members.push({
        name,
        type: this.#typeOf(node, type),
        optional: node.optional === true,
        doc,
        start: node.start,
        members: this.#membersOfType(type),
      });
    }
    return members;
  }

  #nameOf(node) {
    if (node.type === 'TSCallSignatureDeclaration') return '(call)';
    if (node.type === 'TSConstructSignatureDeclaration') return 'new';
    if (node.type === 'TSIndexSignature') return `[${node.parameters.map((one) => this.#slice(one)).join(', ')}]`;
    const name = this.#slice(node.key);
    return `${node.static ? 'static ' : ''}${node.computed ? `[${name}]` : name}`;
  }

  #typeOf(node, type) {
    if (type !== undefined && node.type !== 'TSIndexSignature' && !node.type.includes('Signature'))
      return this.#slice(type);
    if (node.type === 'TSPropertySignature') return type ? this.#slice(type) : '';
    if (node.type === 'TSIndexSignature') return this.#slice(node.typeAnnotation.typeAnnotation);
    // A method: from its type parameters or parameters to its end.
    const text = this.#slice(node);
    const from = node.key ? node.key.end - node.start + (node.computed ? 1 : 0) : 0;
    return text.slice(from).replace(/^\?/, '').replace(/;$/, '').trim();
  }

  #codeOf(statement) {
    const code = this.#slice(statement);
    return code
      .replace(/^export /, '')
      .replace(/^declare /, '')
      .replace(/^const /, 'const ');
  }

  #slice({ start, end }) {
    return this.#text.slice(start, end);
  }

  /** The comment that ends right before `start`. @param {number} start @returns {Doc | undefined} */
  #docBefore(start) {
    const comment = this.#comments.findLast(({ end }) => end <= start);
    if (comment === undefined || this.#text.slice(comment.end, start).trim() !== '') return undefined;
    return docOf(comment.text);
  }
}

/** @param {string} comment @returns {Doc} */
function docOf(comment) {
  const lines = comment
    .slice(3, -2)
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd());
  const [text = '', ...rest] = lines
    .join('\n')
    .split(/(?<=^|\s)@(?=(?:defaultValue|param|example|throws|returns|deprecated|see)\b)/);
  return {
    text: text.trim(),
    tags: rest.map((one) => {
      const [, tag = '', body = ''] = /^(\w+)\s*([\s\S]*)$/.exec(one) ?? [];
      return { tag, text: body.trim() };
    }),
  };
}

/** @param {any} statement */
function isReexport({ type, declaration }) {
  return type === 'ExportAllDeclaration' || (type === 'ExportNamedDeclaration' && !declaration);
}

function kindOf(parts) {
  const types = parts.map(({ type }) => type);
  if (types.includes('ClassDeclaration')) return 'class';
  if (types.some((type) => type === 'TSDeclareFunction' || type === 'FunctionDeclaration')) return 'function';
  if (types.includes('VariableDeclaration')) {
    const annotation = parts[0].declarations[0].id.typeAnnotation?.typeAnnotation;
    return annotation?.type === 'TSFunctionType' ? 'function' : 'constant';
  }
  return 'type';
}

function* identifiersIn(node) {
  if (node === null || typeof node !== 'object') return;
  if (Array.isArray(node)) {
    for (const one of node) yield* identifiersIn(one);
  } else {
    if (node.type === 'Identifier') yield node.name;
    for (const value of Object.values(node)) yield* identifiersIn(value);
  }
}
