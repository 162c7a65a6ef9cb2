/** The source files a built file is made of, as the build names them in it. */
export const sourcesIn = (built: string): string[] =>
  [...built.matchAll(/^\/\/ (src\/\S+\.ts)$/gm)].map(([, file]) => String(file));
