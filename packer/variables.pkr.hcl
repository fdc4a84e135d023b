variable "base_disk" {
  type        = string
  description = "The qcow2 to start from; it is copied, never changed."
}

variable "seed" {
  type        = string
  description = "NoCloud ISO that gives root the build's key."
}

variable "private_key" {
  type        = string
  description = "The build's own SSH key; hygiene removes its public half from the image."
}

variable "output" {
  type        = string
  description = "Folder to create with the finished disk."
}

variable "console" {
  type        = string
  description = "File that gets what the guest says on its serial console."
}

variable "accelerator" {
  type        = string
  description = "kvm or tcg."
}

variable "cpus" {
  type        = number
  description = "Virtual CPUs; one where they are emulated."
}

variable "cpu_model" {
  type        = string
  description = "QEMU's CPU model."
}

variable "memory_mib" {
  type        = number
  default     = 3072
  description = "Memory of the build VM, MiB."
}

variable "boot_minutes" {
  type        = number
  default     = 12
  description = "How long SSH may take to answer."
}

variable "ansible_playbook" {
  type        = string
  description = "The ansible-playbook program."
}

variable "ansible_folder" {
  type        = string
  description = "Folder with ansible.cfg, image.yml and the roles."
}

variable "ansible_variables" {
  type        = string
  description = "JSON file with the variables of this build."
}
