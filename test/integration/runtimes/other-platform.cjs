// Loaded before a program: as far as a program can see, this is the platform that FAKE_PLATFORM names, without the files of Linux.
const fs = require('node:fs');
const platform = process.env.FAKE_PLATFORM;
Object.defineProperty(process, 'platform', { value: platform });
if (platform === 'win32') for (const name of ['getuid', 'geteuid', 'getgid']) delete process[name];

const isOfLinux = (path) => /^\/(proc|sys|etc|var\/run)\//.test(String(path));
const missing = (path) =>
  Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: 'ENOENT' });
const { readFileSync, readFile } = fs;
const readLater = fs.promises.readFile;
fs.readFileSync = (path, ...rest) => {
  if (isOfLinux(path)) throw missing(path);
  return readFileSync(path, ...rest);
};
fs.readFile = (path, ...rest) => (isOfLinux(path) ? rest.at(-1)(missing(path)) : readFile(path, ...rest));
fs.promises.readFile = async (path, ...rest) => {
  if (isOfLinux(path)) throw missing(path);
  return readLater(path, ...rest);
};
