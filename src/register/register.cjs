// What this file replaces in Node and in client libraries is undocumented: here, and in no other file, a function for each. Whatever it
// replaces it puts back when something goes wrong.
//
// Loaded by `node --require evenkeel/register`, and through NODE_OPTIONS by every Node of a container: npm, tsc, workers, scripts. So it is
// written in JavaScript that Node 12 can parse, does nothing before an app calls what may be a Service, and whatever goes wrong leaves
// the app as it was. What it needs from evenkeel is loaded by then, by engine of client: node-http.js, undici.cjs, grpc-js.cjs.
'use strict';

const STATE = Symbol.for('evenkeel.register');

/** Which clients were found that are not balanced, and why: shown by the admin page and `evenkeel doctor`. */
const left = new Map();
/** What undoes each change. */
const undo = [];
let isOff = false;

function say(text) {
  process.stderr.write(`evenkeel: ${text}\n`);
}

/** Something of ours failed: from now on the app runs as if we were not there. */
function giveUp(error) {
  if (isOff) return;
  isOff = true;
  say(`EVENKEEL_REGISTER: ${String(error && error.message).split('\n')[0]}; the app runs without evenkeel`);
}

function leave(what, remedy) {
  const known = left.get(what);
  if (known === undefined) left.set(what, { count: 1, remedy });
  else known.count++;
}

/** One client cannot be balanced: it is left alone, everything else goes on. */
function leaveClient(client, why, remedy) {
  leave(client, remedy);
  say(`EVENKEEL_REGISTER: ${client} is not balanced: ${String(why).split('\n')[0]}. Remedy: ${remedy}`);
}

/** Settings from the environment; throws for bad ones. */
function readSettings(env) {
  const list = (name) => {
    const text = env[name];
    if (text === undefined || text.trim() === '') return undefined;
    const hosts = text.split(',').map((host) => host.trim().toLowerCase());
    for (const host of hosts) {
      if (!/^[a-z0-9_.-]+$/.test(host)) {
        throw new Error(`${name} must be host names such as orders.shop, separated by commas, got "${host}"`);
      }
    }
    return hosts;
  };
  const address = (name) => {
    const text = env[name];
    if (text === undefined || text === '') return undefined;
    const found = /^(?:(.+):)?(\d{1,5})$/.exec(text);
    if (found === null || Number(found[2]) > 65535) {
      throw new Error(`${name} must be a port, or an address and a port such as 0.0.0.0:9901, got "${text}"`);
    }
    return { host: found[1] || '127.0.0.1', port: Number(found[2]) };
  };
  const config = env.EVENKEEL_CONFIG || undefined;
  // Every Node of a container inherits the variable, whichever folder it runs in: a relative path could name anybody's file.
  if (config !== undefined && !require('path').isAbsolute(config)) {
    throw new Error(`EVENKEEL_CONFIG must be an absolute path, got "${config}"`);
  }
  const disabled = env.EVENKEEL_DISABLED;
  if (disabled !== undefined && !/^(1|0|true|false|)$/i.test(disabled)) {
    throw new Error(`EVENKEEL_DISABLED must be 1 or 0, got "${disabled}"`);
  }
  return {
    isDisabled: /^(1|true)$/i.test(disabled || ''),
    services: list('EVENKEEL_SERVICES'),
    exclude: list('EVENKEEL_EXCLUDE'),
    config,
    admin: address('EVENKEEL_ADMIN'),
    metrics: address('EVENKEEL_METRICS'),
  };
}

/** `orders.shop`, whichever way a Service is spelled. */
function shortName(host) {
  return host
    .toLowerCase()
    .replace(/\.$/, '')
    .replace(/^([^.]+\.[^.]+)\.svc(\..*)?$/, '$1');
}

/** The proxies of meshes by the ports on which they listen in a pod: such a proxy balances already, and has no route to pod addresses. */
const meshPorts = new Map([
  [15001, 'Istio'],
  [4140, 'Linkerd'],
]);

function meshOfPod() {
  if (process.platform !== 'linux') return undefined;
  const fs = require('fs');
  for (const file of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    let text = '';
    try {
      text = fs.readFileSync(file, 'utf8');
    } catch (_error) {
      continue;
    }
    for (const line of text.split('\n')) {
      const found = /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A /.exec(line);
      const mesh = found === null ? undefined : meshPorts.get(Number.parseInt(found[1], 16));
      if (mesh !== undefined) return mesh;
    }
  }
  return undefined;
}

function register() {
  const settings = readSettings(process.env);
  if (settings.isDisabled) return;
  // Outside a cluster no name is a Service's, unless one is named.
  if (process.env.KUBERNETES_SERVICE_HOST === undefined && settings.services === undefined) return;
  const listed = settings.services && new Set(settings.services.map(shortName));
  const excluded = new Set((settings.exclude || []).map(shortName));

  /** A quick look, for every request: false for most hosts that are no Services. The engine asks DNS about the rest. */
  function mayBeService(host) {
    if (isOff || typeof host !== 'string' || host === '' || host.indexOf(':') !== -1) return false;
    const name = host.toLowerCase().replace(/\.$/, '');
    const short = shortName(name);
    if (excluded.has(short)) return false;
    if (listed !== undefined) return listed.has(short);
    if (/^[\d.]+$/.test(name) || /(^|\.)localhost$/.test(name)) return false;
    const labels = name.split('.');
    return labels.length <= 2 || labels[2] === 'svc';
  }

  let config;
  let isPrepared = false;
  /** Before the first engine: what is needed once. */
  function prepare() {
    if (isPrepared) return;
    isPrepared = true;
    const mesh = meshOfPod();
    if (mesh !== undefined) {
      isOff = true;
      say(`this pod has a proxy of ${mesh}, which balances already: evenkeel stays out`);
      return;
    }
    config = settings.config === undefined ? ownProperties({}) : readConfig(settings.config);
    if (settings.admin !== undefined || settings.metrics !== undefined) require('./pages.js').startPages(settings, say);
  }

  /** Loads an engine with `load` when `client` first needs it; undefined if it cannot be had. */
  function engineOf(client, remedy, load) {
    let engine;
    let isLoaded = false;
    return () => {
      if (isOff) return undefined;
      if (isLoaded) return engine;
      isLoaded = true;
      try {
        prepare();
        const makes = isOff ? undefined : load();
        if (makes !== undefined) {
          engine = makes.createEngine({ listed: settings.services, excluded, config, shortName, giveUp });
        }
      } catch (error) {
        // What the settings say is wrong for every client.
        if (client === undefined || config === undefined || (error && error.code === 'EVENKEEL_OPTION')) giveUp(error);
        else leaveClient(client, error && error.message, remedy);
      }
      return engine;
    };
  }

  patchHttp(
    mayBeService,
    engineOf(undefined, undefined, () => require('./node-http.js')),
  );
  patchFetch(
    mayBeService,
    engineOf('undici', OTHER_UNDICI, () => engineWith('undici', findUndici())),
  );
  patchModules(mayBeService, engineOf);
}

/** The engine of a library for one copy of it; undefined without one. */
function engineWith(library, copy) {
  if (copy === undefined) return undefined;
  const file = `./${library.replace(/^@grpc./, '')}.cjs`;
  return require(file)((name) => (name === library ? copy : require(name)));
}

/** Whether `library` works in this version and on this Node. */
function fits(library, manifest) {
  const { isInRange, peerRanges } = require('./common.js');
  const node = /^>=(\d+)/.exec((manifest.engines || {}).node || '');
  return isInRange(manifest.version, peerRanges[library]) && (node === null || Number(node[1]) <= major);
}

/** The names under which a copy of undici is looked for: an app may need an older one as `undici`. */
const undiciNames = ['undici', 'undici7', 'undici8'];
const OTHER_UNDICI = 'npm install undici7@npm:undici@7';

/** A copy of undici that the engine can use, installed beside evenkeel or the app, under any of the names; undefined if there is none. */
function findUndici() {
  let other;
  const { dirname } = require('path');
  // The app's own folder is that of its program, not the one in which it was started: anybody may write there.
  for (const folder of [__dirname].concat(process.argv[1] ? dirname(process.argv[1]) : [])) {
    for (const name of undiciNames) {
      try {
        const manifest = require(require.resolve(`${name}/package.json`, { paths: [folder] }));
        if (fits('undici', manifest)) return partsOfUndici(require.resolve(name, { paths: [folder] }));
        if (other === undefined) other = `undici ${manifest.version}`;
      } catch (error) {
        if (!error || error.code !== 'MODULE_NOT_FOUND') throw error;
      }
    }
  }
  if (other === undefined) leave('undici', 'npm install undici');
  else {
    const { peerRanges } = require('./common.js');
    leaveClient('undici', `it needs undici ${peerRanges.undici} beside ${other}`, OTHER_UNDICI);
  }
  return undefined;
}

/**
 * What the engine uses of a copy of undici. Its index loads three times as much (caches, mocks, another fetch), all of it while the app's
 * first request waits. @param index The file that an app gets as `undici`.
 */
function partsOfUndici(index) {
  if (require.cache[index] !== undefined) return require(index);
  const { dirname, join } = require('path');
  const { existsSync } = require('fs');
  const part = (name) => require(join(dirname(index), 'lib', name));
  try {
    const parts = {
      Agent: part('dispatcher/agent.js'),
      Client: part('dispatcher/client.js'),
      Dispatcher: part('dispatcher/dispatcher.js'),
      Pool: part('dispatcher/pool.js'),
      errors: part('core/errors.js'),
      // Nobody can have made one before the index is loaded.
      get FormData() {
        return require.cache[index] === undefined ? class {} : require(index).FormData;
      },
      get Response() {
        return require(index).Response;
      },
    };
    // By this undici 8 is known.
    if (existsSync(join(dirname(index), 'lib/dispatcher/dispatcher1-wrapper.js'))) {
      parts.Dispatcher1Wrapper = part('dispatcher/dispatcher1-wrapper.js');
    }
    return parts;
  } catch (error) {
    if (!error || error.code !== 'MODULE_NOT_FOUND') throw error;
    return require(index);
  }
}

function readConfig(path) {
  const loaded = require(path);
  const config =
    loaded && loaded.__esModule && loaded.default !== undefined ? loaded.default : loaded && (loaded.default || loaded);
  if (typeof config !== 'object' || config === null) throw new Error(`EVENKEEL_CONFIG: ${path} exports no object`);
  for (const name of Object.keys(config)) {
    if (['http', 'fetch', 'grpc', 'discovery'].indexOf(name) === -1) {
      throw new Error(`EVENKEEL_CONFIG: ${path} has no option "${name}"; there are http, fetch, grpc and discovery`);
    }
  }
  return ownProperties(config);
}

/** What own-properties.ts does, for what is read before the engines are loaded. */
function ownProperties(options) {
  return Object.assign(Object.create(null), options);
}

/** Requests of http and https: those through Node's own Agent class, whichever of its objects. */
function patchHttp(mayBeService, engineOf) {
  const http = require('http');
  const https = require('https');
  const { prototype } = http.Agent;
  const { addRequest } = prototype;
  const classes = [prototype, https.Agent.prototype].map((made) => ({ made, stock: connectingOf(made) }));
  /** Whether it connects as Node does: whatever an app changed there may be a check that a request must pass. */
  const isPlain = (agent) => {
    const own = Object.getPrototypeOf(agent);
    const known = classes.find(({ made }) => made === own);
    if (known === undefined) return false;
    return connecting.every(
      (name) =>
        !Object.hasOwn(agent, name) && (own[name] === known.stock[name] || original(own[name]) === known.stock[name]),
    );
  };
  function balancedAddRequest(request, options) {
    if (isOff || typeof options !== 'object' || options === null || !mayBeService(options.host)) {
      return addRequest.apply(this, arguments);
    }
    if (!isPlain(this)) {
      const name = (this.constructor && this.constructor.name) || 'an agent';
      leave(`${name} of node:http`, 'createAgent of evenkeel/node-http in its place');
      return addRequest.apply(this, arguments);
    }
    if (this.maxTotalSockets !== Infinity) {
      leave('an agent of node:http with maxTotalSockets', 'maxSockets in its place');
      return addRequest.apply(this, arguments);
    }
    const engine = engineOf();
    if (engine === undefined) return addRequest.apply(this, arguments);
    const onward = () => addRequest.call(this, request, options);
    return engine.route(this, request, options, onward);
  }
  prototype.addRequest = balancedAddRequest;
  undo.push(() => {
    if (prototype.addRequest === balancedAddRequest) prototype.addRequest = addRequest;
  });
  patchUpgrades(http, http.Agent, mayBeService);
  patchUpgrades(https, https.Agent, mayBeService);
}

/** The methods by which an agent connects. */
const connecting = ['createConnection', 'createSocket'];

function connectingOf(prototype) {
  return ownProperties(Object.fromEntries(connecting.map((name) => [name, original(prototype[name])])));
}

/**
 * The method behind what an instrumentation put around it: shimmer (OpenTelemetry, Elastic) and New Relic say which one that is. What an
 * app put in its place by itself does not.
 */
function original(method) {
  let found = method;
  for (let depth = 0; depth < 10; depth++) {
    if (typeof found !== 'function') return found;
    const mark = Object.getOwnPropertySymbols(found).find(({ description }) => description === 'original');
    const behind = found.__original || (mark && found[mark]);
    if (typeof behind !== 'function') return found;
    found = behind;
  }
  return found;
}

/** Whether ws connects with it: by its name, and in a minified bundle by what it says. */
function isOfWs(connect) {
  if (connect.name === 'netConnect' || connect.name === 'tlsConnect') return true;
  const text = String(connect);
  const [, own] = /^function [\w$]*\(([\w$]+)\)/.exec(text) || [];
  if (own === undefined || text.indexOf(`.connect(${own})`) === -1) return false;
  return text.indexOf(`${own}.path=${own}.socketPath,`) !== -1 || text.indexOf(`${own}.path=void 0,`) !== -1;
}

/**
 * Requests that connect by themselves, with the option `createConnection` and no agent. Those of the library ws are known by the name or the
 * text of that function; with an agent in its place, their upgrade is a request like others. The rest is left alone.
 */
function patchUpgrades(module, Agent, mayBeService) {
  let agent;
  for (const name of ['request', 'get']) {
    const { [name]: original } = module;
    const balanced = {
      [name](first, second) {
        const isUrl = typeof first === 'string' || first instanceof URL;
        const options = (isUrl ? second : first) || {};
        const connect = !options.agent && !options.socketPath && options.createConnection;
        if (isOff || !connect || !mayBeService(options.hostname || options.host || (isUrl && hostnameOf(first)))) {
          return original.apply(this, arguments);
        }
        if (isUrl || !isOfWs(connect)) {
          leave('a request of node:http with createConnection', 'an agent in its place');
          return original.apply(this, arguments);
        }
        if (agent === undefined) agent = new Agent();
        return original.call(this, Object.assign({}, options, { agent, createConnection: undefined }), second);
      },
    }[name];
    module[name] = balanced;
    undo.push(() => {
      if (module[name] === balanced) module[name] = original;
    });
  }
}

function hostnameOf(url) {
  try {
    return new URL(url).hostname;
  } catch (_error) {
    return undefined;
  }
}

/** The global dispatchers of undici 6 and 7 (and Node to 24), and of undici 8 (and Node 26). */
const dispatcherSymbols = [Symbol.for('undici.globalDispatcher.1'), Symbol.for('undici.globalDispatcher.2')];
/** What to write where an app makes dispatchers of its own. */
const OWN_DISPATCHER =
  'if it calls a Service, createDispatcher of evenkeel/undici in its place, or the global dispatcher';
/** Hosts of requests to the global dispatcher; the oldest are forgotten together. */
const passed = new Set();
const MAX_HOSTS = 2000;
const balanced = new WeakSet();
const leftDispatchers = new WeakSet();
let balanceDispatchers = () => false;

/** The Agent behind a global dispatcher: what undici 8 puts around its own for older copies hides it. */
function agentBehind(dispatcher) {
  const isAround = typeof (dispatcher.constructor || {}).wrapHandler === 'function';
  return (isAround && globalThis[dispatcherSymbols[1]]) || dispatcher;
}

/** Whether it is undici's own Agent, without interceptors; in a minified bundle the class has another name. */
function isPlainAgent(agent) {
  const own = Object.getPrototypeOf(agent) || {};
  if (agent.dispatch !== own.dispatch && !balanced.has(agent)) return false;
  const made = agent.constructor || {};
  if (typeof made.wrapHandler === 'function') return true;
  // Every Agent has the dispatch of the class behind its own. What an app puts before it may be a check that a request must pass.
  const behind = Object.getPrototypeOf(own) || {};
  if (!Object.hasOwn(behind, 'dispatch') || original(own.dispatch) !== behind.dispatch) return false;
  if (made.name === 'Agent') return true;
  const has = Object.getOwnPropertySymbols(agent).map((symbol) => symbol.description);
  return has.indexOf('factory') !== -1 && has.indexOf('clients') !== -1 && has.indexOf('queue') === -1;
}

/** The options with which the app made an Agent. */
function agentOptions(agent) {
  const partOf = (name) => {
    const symbol = Object.getOwnPropertySymbols(agent).find(({ description }) => description === name);
    return symbol === undefined ? undefined : agent[symbol];
  };
  const { name } = agent.constructor || {};
  const factory = partOf('factory');
  // In a minified bundle all names are others.
  const hasFactory = name === 'Agent' && factory !== undefined && factory.name !== 'defaultFactory';
  return Object.assign(ownProperties({ hasFactory }), partOf('options'));
}

/** Whether an Agent says how to connect, which is not meant for pods. */
function saysHow({ hasFactory, connect, socketPath, localAddress }) {
  if (hasFactory || socketPath || localAddress || typeof connect === 'function') return true;
  const ways = ['socketPath', 'lookup', 'localAddress', 'localPort', 'family', 'host', 'path', 'port'];
  return ways.some((way) => connect && connect[way] !== undefined && connect[way] !== null);
}

/** fetch, WebSocket and EventSource of Node, and every copy of undici: all of them ask for the global dispatcher. */
function patchFetch(mayBeService, engineOf) {
  const hostOf = (origin) => {
    const found = /^https?:\/\/([^/:?#[]+)(?::\d+)?\/?$/i.exec(String(origin));
    return found === null ? undefined : found[1];
  };
  /** In its place, so that it stays the object that the app knows. */
  const balance = (dispatcher, own) => {
    const stock = dispatcher.dispatch.bind(dispatcher);
    const dispatch = (options, handler) => {
      const host = options && hostOf(options.origin);
      if (host === undefined || !mayBeService(host)) return stock(options, handler);
      if (passed.size >= MAX_HOSTS) passed.clear();
      passed.add(host);
      const engine = engineOf();
      return engine === undefined ? stock(options, handler) : engine.dispatch(stock, own, options, handler);
    };
    Object.defineProperty(dispatcher, 'dispatch', {
      configurable: true,
      enumerable: false,
      writable: true,
      // An Agent of undici 6 follows redirects (`maxRedirections`) before its own dispatch.
      value: (dispatcher.interceptors || []).reduceRight((inner, interceptor) => interceptor(inner), dispatch),
    });
    balanced.add(dispatcher);
  };
  /** Whether there was one that was not yet. */
  balanceDispatchers = () => {
    let isFirst = false;
    if (isOff) return isFirst;
    for (const symbol of dispatcherSymbols) {
      const dispatcher = globalThis[symbol];
      if (dispatcher === undefined || dispatcher === null || balanced.has(dispatcher)) continue;
      const agent = agentBehind(dispatcher);
      if (leftDispatchers.has(agent)) continue;
      const own = agentOptions(agent);
      const isPlain = isPlainAgent(agent) && own.interceptors === undefined;
      if (!isPlain || saysHow(own)) {
        leftDispatchers.add(agent);
        const name = agent.constructor && agent.constructor.name;
        leave(
          isPlain
            ? 'a global dispatcher of undici that says how to connect'
            : `the global dispatcher ${name} of undici, which is no plain Agent`,
          'compose it with appInterceptor() of evenkeel/undici',
        );
        continue;
      }
      try {
        balance(dispatcher, own);
        isFirst = true;
      } catch (_error) {
        // A frozen dispatcher.
      }
    }
    return isFirst;
  };

  const native = Object.getOwnPropertyDescriptor(globalThis, 'fetch');
  if (native !== undefined && native.configurable && typeof globalThis.fetch === 'function') {
    const { fetch } = globalThis;
    let isReady = false;
    const balancedFetch = {
      fetch(_input, _init = undefined) {
        if (!isReady) {
          isReady = true;
          // Node loads its undici, which makes the global dispatcher, when one of its classes is first used; fetch does so too.
          try {
            void globalThis.Headers;
          } catch (_error) {
            // A frozen global object: fetch fails in the same way.
          }
          balanceDispatchers();
        }
        return Reflect.apply(fetch, this, arguments);
      },
    }.fetch;
    Object.defineProperty(globalThis, 'fetch', {
      configurable: true,
      enumerable: native.enumerable,
      writable: true,
      value: balancedFetch,
    });
    undo.push(() => {
      if (globalThis.fetch === balancedFetch) Object.defineProperty(globalThis, 'fetch', native);
    });
  }
  patchOrigin();
  listenToUndici(mayBeService);
}

/** Copies of undici inside bundles, which load nothing by name, and dispatchers of the app's own: both tell of their connections. */
function listenToUndici(mayBeService) {
  // With these, undici tells of its connections on stderr, but only if nobody else listens.
  if (/\b(undici|fetch|websocket)\b/i.test(process.env.NODE_DEBUG || '')) return;
  // From its second request on, a copy inside a bundle is balanced.
  const { subscribe, unsubscribe } = require('diagnostics_channel');
  const onConnect = ({ connectParams }) => {
    if (balanceDispatchers() && connectParams) passed.add(connectParams.hostname);
  };
  subscribe('undici:client:beforeConnect', onConnect);
  undo.push(() => unsubscribe('undici:client:beforeConnect', onConnect));
  // A socket has a host if that was looked up; pods are connected to by address.
  const onConnected = ({ connectParams, socket }) => {
    const host = connectParams && connectParams.hostname;
    if (!socket || socket._host !== host || !mayBeService(host) || passed.has(host)) return;
    leave('a Pool, Client or Agent of undici that the app made', OWN_DISPATCHER);
  };
  subscribe('undici:client:connected', onConnected);
  undo.push(() => unsubscribe('undici:client:connected', onConnected));
}

/**
 * WebSocket and EventSource of Node, which read the global origin before the global dispatcher. A look at their own properties would load
 * Node's undici at every start, and its dispatcher would become that of the app's copies.
 */
function patchOrigin() {
  const origin = Symbol.for('undici.globalOrigin.1');
  if (Object.getOwnPropertyDescriptor(globalThis, origin) === undefined) {
    Object.defineProperty(globalThis, origin, {
      configurable: true,
      enumerable: false,
      get() {
        balanceDispatchers();
        return undefined;
      },
      set(value) {
        Object.defineProperty(globalThis, origin, { configurable: true, enumerable: false, writable: true, value });
      },
    });
    undo.push(() => delete globalThis[origin]);
  }
}

/** Native modules that open connections of their own, which no JavaScript sees, and what to write to have them spread over pods. */
const nativeClients = new Map([
  [
    '@temporalio/core-bridge',
    "if Temporal's server is a Service, make it headless, and NativeConnection.connect({ address, dnsLoadBalancingConfig: { resolutionInterval: '30s' } })",
  ],
  ['node-libcurl', 'if it calls a Service, fetch or http.request in its place'],
]);

/** The native client that a file belongs to. */
function nativeClientOf(file) {
  return Array.from(nativeClients.keys()).find(
    (name) => file.replace(/\\/g, '/').indexOf(`/node_modules/${name}/`) !== -1,
  );
}

/**
 * Copies of undici and of grpc-js when they are loaded, by `require` and by `import`: both are CommonJS. They are known by their files and
 * by what is in them, whatever the app calls them. Also native clients.
 */
function patchModules(mayBeService, engineOf) {
  const Module = require('module');
  const { load } = Module.prototype;
  const own = (exports, name) => {
    const isObject = typeof exports === 'object' || typeof exports === 'function';
    return isObject && exports !== null ? (Object.getOwnPropertyDescriptor(exports, name) || {}).value : undefined;
  };
  const look = (module, file) => {
    try {
      if (/[\\/]build[\\/]src[\\/]index\.js$/.test(file)) {
        if (own(module.exports, 'experimental') && own(module.exports, 'loadObject')) {
          patchGrpc(module, mayBeService, engineOf);
        }
      } else if (/[\\/]index(-fetch)?\.js$/.test(file)) {
        const isUndici = /[\\/]undici[^\\/]*[\\/]index/.test(file);
        if (!isUndici && typeof own(module.exports, 'setGlobalDispatcher') !== 'function') return;
        balanceDispatchers();
        patchSetter(module.exports);
      } else if (file.endsWith('.node')) {
        const client = nativeClientOf(file);
        if (client !== undefined && !left.has(client)) leave(client, nativeClients.get(client));
      }
    } catch (error) {
      giveUp(error);
    }
  };
  function balancedLoad(file) {
    const result = load.apply(this, arguments);
    if (!isOff) look(this, file);
    return result;
  }
  Module.prototype.load = balancedLoad;
  undo.push(() => {
    if (Module.prototype.load === balancedLoad) Module.prototype.load = load;
  });
  // Loading http2 at every start would take longer than all else here.
  const { _load } = Module;
  function observedLoad(request) {
    const loaded = _load.apply(this, arguments);
    if (!isOff && (request === 'http2' || request === 'node:http2')) listHttp2(loaded, mayBeService);
    return loaded;
  }
  Module._load = observedLoad;
  undo.push(() => {
    if (Module._load === observedLoad) Module._load = _load;
  });
  // By what was loaded before us.
  for (const file of Object.keys(Module._cache)) look(Module._cache[file], file);
}

let isHttp2Listed = false;

/** Lists what HTTP/2 clients call Services and are not balanced: node:http2 itself, and grpc-js inside a bundle, which loads no file of its own. */
function listHttp2(http2, mayBeService) {
  if (isHttp2Listed) return;
  isHttp2Listed = true;
  const { connect } = http2;
  const listedConnect = {
    connect(authority, options) {
      try {
        const host = hostnameOf(authority);
        if (!isOff && mayBeService(host)) {
          if (!options || options.createConnection === undefined) {
            leave('a client of node:http2', 'createHttp2Client or createSessionManager of evenkeel/http2 in its place');
          } else if (isOfBundledGrpc(options)) {
            leave(
              `${GRPC} in a bundle`,
              `leave ${GRPC} out of the bundle ("external"), so that it is loaded from node_modules`,
            );
          }
        }
      } catch (error) {
        giveUp(error);
      }
      return connect.apply(this, arguments);
    },
  }.connect;
  http2.connect = listedConnect;
  undo.push(() => {
    if (http2.connect === listedConnect) http2.connect = connect;
  });
}

/** Only grpc-js asks for header blocks of any length; outside a bundle it does so from a file of its own. */
function isOfBundledGrpc({ maxSendHeaderBlockLength }) {
  if (maxSendHeaderBlockLength !== Number.MAX_SAFE_INTEGER) return false;
  return !/[\\/]build[\\/]src[\\/]transport\.js/.test(String(new Error().stack));
}

const patchedUndici = new WeakSet();

/** An app that replaces the global dispatcher: the new one is balanced from its first request on. */
function patchSetter(loaded) {
  const { setGlobalDispatcher } = loaded || {};
  if (typeof setGlobalDispatcher !== 'function' || patchedUndici.has(loaded)) return;
  patchedUndici.add(loaded);
  loaded.setGlobalDispatcher = {
    setGlobalDispatcher(_agent) {
      Reflect.apply(setGlobalDispatcher, this, arguments);
      balanceDispatchers();
    },
  }.setGlobalDispatcher;
}

const GRPC = '@grpc/grpc-js';

/** Whether grpc-js sends calls to `host` through a proxy; it reads the same variables. */
function usesProxy(host, options) {
  const { env } = process;
  if ((options && options['grpc.enable_http_proxy'] === 0) || !(env.grpc_proxy || env.https_proxy || env.http_proxy)) {
    return false;
  }
  const direct = env.no_grpc_proxy || env.no_proxy;
  if (direct && direct.split(',').some((suffix) => host.endsWith(suffix))) return false;
  leave('@grpc/grpc-js through a proxy', `no_grpc_proxy=${host} in the environment`);
  return true;
}

/** Clients and channels of one copy of grpc-js, however they are made: all of them are made by these two classes. */
function patchGrpc(module, mayBeService, engineOf) {
  const [client, channel] = ['./client.js', './channel.js'].map((file) => module.require(file));
  const { Client } = client;
  const { ChannelImplementation: Channel } = channel;
  if (typeof Client !== 'function' || typeof Channel !== 'function') return;
  const getEngine = engineOf(GRPC, `npm install ${GRPC}@1`, () => {
    const manifest = module.require('../../package.json');
    if (fits(GRPC, manifest)) return engineWith(GRPC, module.exports);
    const { peerRanges } = require('./common.js');
    leaveClient(GRPC, `it needs ${peerRanges[GRPC]}, not ${manifest.version}`, `npm install ${GRPC}@1`);
    return undefined;
  });
  const hostOf = (address) => {
    const found = /^(?:dns:(?:\/\/[^/]*\/)?)?([^:/]+):\d+$/.exec(String(address));
    return found === null ? undefined : found[1];
  };
  /** The options with which a client for `address` is balanced; undefined if it is not to be. */
  const optionsFor = (address, options) => {
    const host = hostOf(address);
    if (hasOwnChannel(options) || host === undefined || !mayBeService(host) || usesProxy(host, options))
      return undefined;
    const engine = getEngine();
    if (engine === undefined) return undefined;
    try {
      // Undefined for an address that names no Service, such as one with a port that cannot be: grpc-js says what is wrong with it.
      return engine.optionsFor(String(address));
    } catch (error) {
      giveUp(error);
      return undefined;
    }
  };
  const hasOwnChannel = (options) => Boolean(options && (options.channelOverride || options.channelFactoryOverride));
  /** Whether a channel is being made for a client that is not to be balanced. */
  let isDecided = false;
  const named = (made, name) => Object.defineProperty(made, 'name', { value: name });
  client.Client = named(
    class extends Client {
      constructor(address, credentials, options) {
        const own = optionsFor(address, options);
        isDecided = own === undefined && !hasOwnChannel(options);
        try {
          super(address, credentials, own === undefined ? options : Object.assign({}, options, own));
        } finally {
          isDecided = false;
        }
      }
    },
    'Client',
  );
  function BalancedChannel(address, credentials, options) {
    const own = isDecided ? undefined : optionsFor(address, options);
    if (own !== undefined) return own.channelFactoryOverride(address, credentials, options || {});
    return Reflect.construct(Channel, [address, credentials, options], new.target || BalancedChannel);
  }
  BalancedChannel.prototype = Channel.prototype;
  channel.ChannelImplementation = named(Object.setPrototypeOf(BalancedChannel, Channel), Channel.name);
}

const [major, minor] = process.versions.node.split('.').map(Number);
// Bun and Deno say that they are some Node, and have clients of their own.
const isNode = process.versions.bun === undefined && process.versions.deno === undefined;
const isSupported = isNode && (major > 20 || (major === 20 && minor >= 19));
// A second copy, such as the app's own beside the cluster's, leaves everything to the first.
if (isSupported && globalThis[STATE] === undefined) {
  // Node's own, before an app's tests put fake ones in their place: src/runtime/timers.ts uses them.
  const { setTimeout, clearTimeout, setImmediate, queueMicrotask, performance } = globalThis;
  const now = performance.now.bind(performance);
  const timers = { setTimeout, clearTimeout, setImmediate, queueMicrotask, performance: { now } };
  Object.defineProperty(globalThis, STATE, { value: { left, timers }, enumerable: false });
  try {
    register();
  } catch (error) {
    for (const restore of undo.reverse()) restore();
    giveUp(error);
  }
}
