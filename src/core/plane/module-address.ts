// The addresses of modules that another process loads, or this one only when it needs them.

/**
 * What `import.meta.resolve` gives for a module of ours, as this program can load it. A release holds
 * compiled files: the compiler rewrites imports, but not this.
 */
export function moduleAddress(resolved: string): string {
  return import.meta.url.endsWith('.ts') ? resolved : resolved.replace(/\.ts$/, '.js');
}
