// The colours: those of the system, until the person chooses.

const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

class Theme {
  choice = $state<Choice>(kept());

  constructor() {
    this.#apply();
  }

  next(): void {
    this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length] ?? "system";
    localStorage.setItem("theme", this.choice);
    this.#apply();
  }

  #apply(): void {
    document.documentElement.dataset.theme = this.choice;
  }
}

function kept(): Choice {
  const found = localStorage.getItem("theme");
  return CHOICES.find((choice) => choice === found) ?? "system";
}

export const theme = new Theme();
