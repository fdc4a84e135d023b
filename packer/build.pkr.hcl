build {
  sources = ["source.qemu.image"]

  # cloud-init may still be writing what the roles write.
  provisioner "shell" {
    inline = ["cloud-init status --wait >/dev/null || true"]
  }

  provisioner "ansible" {
    command       = var.ansible_playbook
    playbook_file = "${var.ansible_folder}/image.yml"
    user          = "root"
    use_proxy     = false
    extra_arguments = [
      "--extra-vars", "@${var.ansible_variables}",
      "--ssh-extra-args", "-o IdentitiesOnly=yes",
    ]
    ansible_env_vars = [
      "ANSIBLE_CONFIG=${var.ansible_folder}/ansible.cfg",
      "ANSIBLE_NOCOLOR=1",
      # The guest made its host key a minute ago and is thrown away with this build.
      "ANSIBLE_HOST_KEY_CHECKING=False",
    ]
  }
}
