/** Programs outside npm that some tests and benchmarks use when they are there. */
import { accessSync, constants, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** `tests` and `benchmarks`: what will not run without the program. */
export const systemPackages = [
  {
    name: 'Chromium',
    commands: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    apt: 'chromium',
    tests: "the tests of the playground's page",
  },
  {
    name: 'HAProxy',
    commands: ['haproxy'],
    apt: 'haproxy',
    services: ['haproxy.service'],
    benchmarks: 'its rows in the benchmarks "http" and "grpc"',
  },
  {
    name: 'MariaDB',
    commands: ['mariadbd'],
    // The server alone: the package `mariadb-server` would also start it as a service of the machine.
    apt: 'mariadb-server-core',
    tests: 'the tests against real MySQL servers and their example',
    benchmarks: 'the benchmark "mysql"',
  },
  {
    name: 'Mosquitto',
    commands: ['mosquitto'],
    apt: 'mosquitto',
    services: ['mosquitto.service'],
    tests: 'the test of the MQTT recipe',
  },
  {
    name: 'memcached',
    commands: ['memcached'],
    apt: 'memcached',
    services: ['memcached.service'],
    tests: 'the test of the Memcached recipe',
  },
  {
    name: 'nginx',
    commands: ['nginx'],
    apt: 'nginx-light',
    services: ['nginx.service'],
    benchmarks: 'its rows in the benchmarks "http" and "grpc"',
  },
  {
    name: 'aiosmtpd',
    commands: ['aiosmtpd'],
    apt: 'python3-aiosmtpd',
    tests: 'the test of the SMTP recipe',
  },
  {
    name: 'OpenLDAP',
    commands: ['slapd'],
    apt: 'slapd',
    services: ['slapd.service'],
    tests: 'the test of the LDAP recipe',
  },
  {
    name: 'PgBouncer',
    commands: ['pgbouncer'],
    apt: 'pgbouncer',
    services: ['pgbouncer.service'],
    tests: 'the tests of PostgreSQL behind PgBouncer',
  },
  {
    name: 'PostgreSQL',
    commands: ['postgres'],
    apt: 'postgresql',
    services: ['postgresql.service'],
    tests: 'the tests against real PostgreSQL servers and their example',
    benchmarks: 'the benchmark "postgres"',
  },
  {
    name: 'Prometheus',
    commands: ['prometheus'],
    apt: 'prometheus',
    // Its exporter of the machine's own figures comes with it where recommended packages are installed.
    services: ['prometheus.service', 'prometheus-node-exporter.service'],
    tests: 'the tests of metrics, alerts and their rules against a real Prometheus',
  },
  {
    name: 'RabbitMQ',
    commands: ['rabbitmq-server'],
    apt: 'rabbitmq-server',
    // Erlang's name server comes with it, and would start as well.
    services: ['rabbitmq-server.service', 'epmd.service', 'epmd.socket'],
    tests: 'the tests against real AMQP brokers and their example',
  },
  {
    name: 'Redis',
    commands: ['redis-server'],
    apt: 'redis-server',
    services: ['redis-server.service'],
    tests: 'the tests against real Redis servers and their example',
  },
];

/** The programs that the tests use, or the benchmarks. @param {'tests' | 'benchmarks'} purpose */
export function packagesFor(purpose) {
  return systemPackages.filter((wanted) => wanted[purpose] !== undefined);
}

/** Debian keeps the programs of each version of PostgreSQL apart; the newest comes first. */
function postgresFolders() {
  const versions = '/usr/lib/postgresql';
  try {
    const found = readdirSync(versions).sort((a, b) => Number(b) - Number(a));
    return found.map((version) => join(versions, version, 'bin'));
  } catch {
    return [];
  }
}

/** The path of the first of these programs found, or undefined. Some live in sbin, which not every PATH has. */
export function findCommand(commands) {
  const path = (process.env.PATH ?? '').split(delimiter);
  const folders = [...path, '/usr/sbin', '/usr/local/sbin', ...postgresFolders()];
  for (const command of commands) {
    for (const folder of folders) {
      const path = join(folder, command);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not there; look on.
      }
    }
  }
  return undefined;
}

/** The one command that would install it. */
export function installHint({ apt, name }) {
  return process.platform === 'linux' ? `sudo apt-get install ${apt}` : `install ${name} and put it on the PATH`;
}
