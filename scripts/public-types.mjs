/**
 * Cuts the types `tsc` has written down to what entry points can reach: each declaration nobody can name, and each file and import
 * that is left without use, goes. What stays is as `tsc` wrote it, comments included.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

/** What a property or a parameter is called refers to nothing. */
const NAMES = {
  TSPropertySignature: 'key',
  TSMethodSignature: 'key',
  PropertyDefinition: 'key',
  MethodDefinition: 'key',
};

/**
 * @param {readonly string[]} entries types of entry points, whose exports all stay
 * @param {readonly string[]} files all types there are
 */
export function keepPublicTypes(entries, files) {
  const modules = new Map();
  const moduleOf = (file) => {
    if (!modules.has(file)) modules.set(file, new TypesModule(file, moduleOf));
    return modules.get(file);
  };
  for (const entry of entries) moduleOf(entry).keepExports();
  for (const file of files) {
    const text = modules.get(file)?.kept();
    if (text === undefined) rmSync(file);
    else writeFileSync(file, text);
  }
}

class TypesModule {
  #file;
  #text;
  #moduleOf;
  #statements;
  /** Statements by the name they declare; several for overloads. */
  #declared = new Map();
  /** By local name: where it comes from, and as what. */
  #imported = new Map();
  /** By exported name: the name here, or a module and the name there. */
  #exported = new Map();
  #star = [];
  #kept = new Set();

  constructor(file, moduleOf) {
    this.#file = file;
    this.#moduleOf = moduleOf;
    this.#text = readFileSync(file, 'utf8');
    this.#statements = parseAst(this.#text, { lang: 'dts' }, file).body;
    for (const statement of this.#statements) this.#read(statement);
  }

  keepExports() {
    for (const name of this.#exported.keys()) this.keep(name);
    for (const from of this.#star) {
      this.#kept.add(from);
      this.#other(from.source.value)?.keepExports();
    }
  }

  /** Keeps an export, and whatever it refers to; true if there is one. `*`: all of them. */
  keep(name) {
    if (name === '*') this.keepExports();
    const exported = this.#exported.get(name);
    if (exported === undefined) return this.#star.some((from) => this.#keepStar(from, name));
    this.#keepLocal(exported.local, exported.specifier);
    return true;
  }

  /** The file without what is not kept; undefined if that is everything. */
  kept() {
    let text = '';
    let end = 0;
    let hasAny = false;
    for (const statement of this.#statements) {
      // Its comments are between it and the one before.
      const before = this.#text.slice(end, statement.start);
      end = statement.end;
      const written = this.#written(statement);
      if (written === undefined) continue;
      text += before + written;
      hasAny ||= statement.type !== 'ImportDeclaration';
    }
    return hasAny ? `${text.trimStart()}\n` : undefined;
  }

  #read(statement) {
    const { type, declaration, specifiers, source } = statement;
    if (type === 'ImportDeclaration') {
      for (const specifier of specifiers) {
        this.#imported.set(specifier.local.name, { specifier, from: source.value, name: nameThere(specifier) });
      }
    } else if (type === 'ExportAllDeclaration') this.#star.push(statement);
    else if (type === 'ExportNamedDeclaration' && declaration === null) {
      for (const specifier of specifiers) {
        const local = source === null ? specifier.local.name : specifier;
        if (source !== null)
          this.#imported.set(specifier, { specifier, from: source.value, name: specifier.local.name });
        this.#exported.set(specifier.exported.name, { local, specifier });
      }
    } else {
      for (const name of namesOf(declaration ?? statement)) {
        this.#declared.set(name, [...(this.#declared.get(name) ?? []), statement]);
        if (declaration !== undefined) this.#exported.set(name, { local: name });
      }
    }
  }

  #keepStar(from, name) {
    const isThere = this.#other(from.source.value)?.keep(name) === true;
    if (isThere) this.#kept.add(from);
    return isThere;
  }

  #keepLocal(name, specifier) {
    if (specifier !== undefined) this.#kept.add(specifier);
    for (const statement of this.#declared.get(name) ?? []) {
      if (this.#kept.has(statement)) continue;
      this.#kept.add(statement);
      this.#follow(statement);
    }
    const imported = this.#imported.get(name);
    if (imported === undefined) return;
    this.#kept.add(imported.specifier);
    this.#other(imported.from)?.keep(imported.name);
  }

  /** Keeps what a declaration refers to. */
  #follow(node) {
    if (node === null || typeof node !== 'object') return;
    if (Array.isArray(node)) {
      for (const one of node) this.#follow(one);
      return;
    }
    if (node.type === 'Identifier') this.#keepLocal(node.name);
    if (node.type === 'TSImportType') this.#other((node.source ?? node.argument.literal).value)?.keep('*');
    const skipped = node.computed ? undefined : NAMES[node.type];
    for (const [key, value] of Object.entries(node)) if (key !== skipped) this.#follow(value);
  }

  #other(from) {
    if (!from.startsWith('.')) return undefined;
    return this.#moduleOf(join(dirname(this.#file), from.replace(/\.js$/, '.d.ts')));
  }

  #written(statement) {
    const text = this.#text.slice(statement.start, statement.end);
    const { specifiers = [], type } = statement;
    if (specifiers.length === 0 || statement.declaration) {
      // `export {}` says that it is a module.
      return this.#kept.has(statement) || (type === 'ExportNamedDeclaration' && !statement.declaration)
        ? text
        : undefined;
    }
    const used = specifiers.filter((specifier) => this.#kept.has(specifier));
    if (used.length === specifiers.length) return text;
    if (used.length === 0) return undefined;
    const list = used.map(({ start, end }) => this.#text.slice(start, end)).join(', ');
    return text.replace(/\{[^}]*\}/, `{ ${list} }`);
  }
}

/** The name of an import in the module it comes from. */
function nameThere({ type, imported }) {
  if (type === 'ImportNamespaceSpecifier') return '*';
  return type === 'ImportDefaultSpecifier' ? 'default' : imported.name;
}

/** What a statement declares. */
function namesOf({ id, declarations }) {
  return declarations ? declarations.map((one) => one.id.name) : [id?.name];
}
