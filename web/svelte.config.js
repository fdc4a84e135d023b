// How components are compiled, for the build and for svelte-check.
export default {
  compilerOptions: {
    // No style in markup or script: the pages run below a policy that refuses both.
    css: "external",
    runes: true,
  },
};
